// Package history is what a drill leaves behind: one clock, the events that
// were seen, and every DNS query with its fate, as JSON lines on disk.
//
// It is a leaf: it knows nothing of clusters, queues or verdicts, so that a
// history can be judged again years later by a newer set of checks.
package history
