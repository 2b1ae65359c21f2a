package rundelay

import (
	"time"

	"golang.org/x/sys/unix"
)

// first asks the kernel to run this thread before all others: what records waiting must not
// wait itself. It needs two hundredths of a processor. Only root may, and a control group
// may have no real-time share; the summary shows how late samples were.
func first() {
	fifo := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	if err := unix.SchedSetAttr(0, &fifo, 0); err != nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20)
	}
}

// sleep waits in the kernel: Go's own timers are run by whichever of its threads finds the
// time, and these have no such priority.
func sleep(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &ts, nil)
}

// threadTime is the processor time of this thread.
func threadTime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) // always there
	return time.Duration(ts.Nano())
}
