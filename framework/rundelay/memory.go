package rundelay

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/procfs"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Memory is what the processes of one name hold at a time.
type Memory struct {
	Name string
	At   time.Duration
	// Bytes are resident and of no file: what a leak is made of. What is swapped out is not
	// among them; nodes have no swap.
	Bytes int64
}

// Event is the memory as a history has it.
func (m Memory) Event() history.Event {
	return history.NewMemoryUsed(m.Name, history.At(m.At), history.With(history.Numbers{history.Bytes: float64(m.Bytes)}))
}

// memory reports what the processes hold, if it is time.
func (s *sampling) memory(now time.Duration) {
	if s.Memory == nil || len(s.processes) == 0 || s.measured > 0 && now-s.measured < history.MemoryInterval {
		return
	}
	s.measured = now
	held := map[string]int64{}
	for _, p := range s.processes {
		if n, err := anonymous(s.Proc, p.PID); err == nil { // else it has just ended
			held[p.Name] += n
		}
	}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		s.Memory(Memory{Name: name, At: now, Bytes: held[name]})
	}
}

// anonymous is how many bytes of a process are resident and of no file.
func anonymous(proc string, pid int) (int64, error) {
	fs, err := procfs.NewFS(proc)
	if err != nil {
		return 0, err
	}
	p, err := fs.Proc(pid)
	if err != nil {
		return 0, err
	}
	status, err := p.NewStatus()
	if err == nil && status.RssAnon == 0 { // every process has some
		err = errForm
	}
	return int64(status.RssAnon), err
}
