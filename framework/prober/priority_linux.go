package prober

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// raisePriority has every thread of this process run before anything else on the
// machine, where that is allowed (root, CAP_SYS_NICE): a query that leaves late
// because of a neighbour measures the neighbour. It has to be every thread, since
// Go may take the loop's processor away and another thread hands it back; those
// made later inherit it. A process that was given another priority on purpose keeps
// that. The kernel leaves 5 % of the time to others in any case
// (kernel.sched_rt_runtime_us).
func raisePriority() (restore func()) {
	now, err := unix.SchedGetAttr(0, 0)
	if err != nil || now.Policy != unix.SCHED_NORMAL || !setPriority(unix.SCHED_FIFO, 1) {
		return func() {}
	}
	return func() { setPriority(unix.SCHED_NORMAL, 0) }
}

// setPriority says whether it could be set for every thread.
func setPriority(policy, priority uint32) bool {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return false
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err == nil {
			err = unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy, Priority: priority}, 0)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) { // gone meanwhile
			return false
		}
	}
	return true
}
