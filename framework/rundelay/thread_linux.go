package rundelay

import (
	"time"

	"golang.org/x/sys/unix"
)

// first asks the kernel to run this thread before others: what records waiting must not
// wait itself. Only root may; the summary shows how late samples were.
func first() { _ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20) }

// sleep sleeps in the kernel: a timer of Go's would be served by another thread, which may
// have to wait for a processor.
func sleep(d time.Duration) {
	ts := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&ts, nil) // a signal makes one sample early
}

// threadTime is the processor time of this thread.
func threadTime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) // always there
	return time.Duration(ts.Nano())
}
