// Package rundelay records how long processes waited for a processor: the run_delay that
// the kernel keeps for each thread (Documentation/scheduler/sched-stats.rst), together
// with the packets that the kernel dropped meanwhile because a socket's receive buffer
// was full, and the memory that processes hold.
//
// A server that gets no processor cannot read its socket. Queries that it loses then are
// not the fault of what a drill does. A server that is overloaded runs all the time, and
// a process that is stopped or frozen waits for no processor: neither is on this record.
package rundelay
