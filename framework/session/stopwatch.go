package session

import (
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/reports"
)

// stopwatch measures the phases of what is played, one drill or two next to each other.
type stopwatch struct {
	mu      sync.Mutex // drills next to each other report their phases at the same time
	watch   *reports.Stopwatch
	drills  int // that are played now
	reached map[history.Phase]int
}

// begin starts the stopwatch.
func (s *stopwatch) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch = reports.NewStopwatch(time.Now)
}

// stop returns the phases since begin.
func (s *stopwatch) stop() reports.PhaseTimes {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watch.Stop()
}

// play begins an attempt with that many drills.
func (s *stopwatch) play(drills int) {
	s.enter(reports.Arranging)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drills, s.reached = drills, map[history.Phase]int{}
}

// begins notes that a drill has begun a phase. It counts from when the last one has.
func (s *stopwatch) begins(phase history.Phase) {
	s.mu.Lock()
	s.reached[phase]++
	all := s.reached[phase] == s.drills
	s.mu.Unlock()
	if all {
		s.enter(map[history.Phase]reports.Phase{
			history.Arrange: reports.Arranging, history.Record: reports.Baseline, history.Steps: reports.Stepping,
			history.Settle: reports.Settling, history.Restore: reports.Restoring,
		}[phase])
	}
}

// enter begins a phase that no drill reports.
func (s *stopwatch) enter(phase reports.Phase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch.Enter(phase)
}
