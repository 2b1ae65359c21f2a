// Package history is what a drill leaves behind on disk: the events that were seen,
// every DNS query with its fate, and the flows that they took, on one clock.
//
// It is a leaf: it knows nothing of clusters, queues or verdicts, so that a
// history can be judged again years later by a newer set of checks.
package history
