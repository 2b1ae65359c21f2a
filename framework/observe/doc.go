// Package observe measures DNS in a cluster that is not spotdrill's own: probers in the
// cluster, the record outside, and whatever happens in between. It leaves the same history
// as a drill, and nothing in the cluster. It judges nothing.
package observe
