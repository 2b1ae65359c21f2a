package rundelay

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

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
	text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, fmt.Errorf("read the memory of a process: %w", err)
	}
	return parseAnonymous(text)
}

func parseAnonymous(status []byte) (int64, error) {
	for line := range bytes.Lines(status) {
		fields := bytes.Fields(line)
		if len(fields) == 3 && string(fields[0]) == "RssAnon:" && string(fields[2]) == "kB" {
			n, err := strconv.ParseInt(string(fields[1]), 10, 64)
			return n << 10, err
		}
	}
	return 0, errForm
}
