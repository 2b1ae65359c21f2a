package rundelay

import (
	"time"

	"golang.org/x/sys/unix"
)

// first asks the kernel to run a thread before all others; threads that it starts inherit
// that. Only root may, and a control group may have no real-time share.
func first(thread int) error {
	return unix.SchedSetAttr(thread, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
}

// firstOfProcess asks that for all threads of this process, or else for as much as a nice
// value does; the summary shows how late samples were.
func firstOfProcess() {
	for range 2 { // the first time, a thread that was not raised yet may have started another
		threads, err := numbers("/proc/self/task")
		if err != nil {
			return
		}
		for _, thread := range threads {
			if err := first(thread); err != nil {
				_ = unix.Setpriority(unix.PRIO_PROCESS, thread, -20)
			}
		}
	}
}

// processTime is the processor time of this process.
func processTime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts) // always there
	return time.Duration(ts.Nano())
}
