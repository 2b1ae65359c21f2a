package engine

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// raisedNice is the nice value of a process that records drills: its weight is then nine
// times that of another process of the host, about that of all containers together (see
// raisedTimes). A watch that is read late has late times.
const raisedNice = -10

// RaisePriority has this process, and what it starts from now on, run before other processes
// of the host, and returns in words what it set, or why it did not.
func RaisePriority() string {
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
