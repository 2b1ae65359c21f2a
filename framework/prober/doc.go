// Package prober asks DNS servers at a fixed rate and records what became of
// every query.
//
// It is open loop: queries leave on schedule whether or not earlier ones were
// answered, and latency counts from the intended send time, so that an outage
// neither thins the load nor hides in it. A query that could not leave within
// Tolerance of its time is recorded as unsent: the prober's own failure, never
// the server's.
//
// Run probes from this process. NewHandler and Serve offer it to another one
// over HTTP, and Collect reads that stream into a history.
package prober
