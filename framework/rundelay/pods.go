package rundelay

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Process is one whose waits are recorded.
type Process struct {
	PID  int
	Name string // what it is called in the record: a pod's namespace/name
}

// Pods finds the processes of pods by their control groups: those of every container
// that runs on this kernel, by whatever engine. It is not safe for concurrent use.
type Pods struct {
	proc string
	// known is the pod's UID of each process that was seen; empty for one of no pod.
	known map[int]string
}

// NewPods finds processes in a proc file system.
func NewPods(proc string) *Pods { return &Pods{proc: proc, known: map[int]string{}} }

// Find returns the processes of the pods whose UID has a name. The processes that hold a
// pod's namespaces (pause) never do anything and are left out.
func (p *Pods) Find(names map[string]string) ([]Process, error) {
	pids, err := numbers(p.proc)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	living := make(map[int]string, len(pids))
	var found []Process
	for _, pid := range pids {
		uid, seen := p.known[pid]
		if !seen {
			uid = p.read(pid)
		}
		living[pid] = uid
		if name, ok := names[uid]; ok && uid != "" {
			found = append(found, Process{pid, name})
		}
	}
	p.known = living
	slices.SortFunc(found, func(a, b Process) int { return a.PID - b.PID })
	return found, nil
}

// read is the UID of the pod that a process belongs to. A process that has just ended
// belongs to none.
func (p *Pods) read(pid int) string {
	dir := filepath.Join(p.proc, strconv.Itoa(pid))
	groups, err := os.ReadFile(filepath.Join(dir, "cgroup"))
	if err != nil {
		return ""
	}
	command, err := os.ReadFile(filepath.Join(dir, "comm"))
	if err != nil || strings.TrimSpace(string(command)) == "pause" {
		return ""
	}
	return podOf(groups)
}
