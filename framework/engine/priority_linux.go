package engine

import (
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// raisedNice is the nice value of a process that records drills: its weight is then nine
// times that of another process of the host, about that of all containers together (see
// raisedTimes). A watch that is read late has late times.
const raisedNice = -10

// threadsAtOnce is how many of Go's threads may run at once, for each processor. A thread
// that the kernel holds back counts as running; with one for each processor, a thread that
// the kernel lets run at once would have to wait for it.
const threadsAtOnce = 4

// RaisePriority has this process, and what it starts from now on, run before other processes
// of the host, and returns in words what it set, or why it did not. It also raises GOMAXPROCS
// to threadsAtOnce for each processor.
func RaisePriority() string {
	runtime.GOMAXPROCS(threadsAtOnce * runtime.NumCPU())
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return "not raised: " + err.Error()
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			continue
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, id, raisedNice); err != nil {
			return "not raised: " + inWords(err)
		}
	}
	return fmt.Sprintf("nice %d", raisedNice)
}
