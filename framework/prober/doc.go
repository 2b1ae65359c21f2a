// Package prober queries DNS servers at a fixed rate and records the outcome of every
// query.
//
// It is open loop: queries leave on schedule whether or not earlier ones were answered,
// and latency counts from the intended send time. So an outage neither reduces the load
// nor hides in it. A query that could not leave within Tolerance of its time is
// recorded as unsent: that is a failure of the prober, never of the server.
//
// Run probes in this process. NewHandler and Serve offer that to other processes over
// HTTP; Collect reads the record of such a probe into a history.
package prober
