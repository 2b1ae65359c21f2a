package reports

import (
	"testing"
	"time"
)

// Whatever a drill goes through, its phases add up to the wall time.
func TestPhasesAddUpToTheWallTime(t *testing.T) {
	begun := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	now := begun
	w := NewStopwatch(func() time.Time { return now })
	for _, part := range []struct {
		took time.Duration
		then Phase
	}{
		{sec(2.5), Baseline},
		{sec(3), Stepping},
		{sec(10), Settling},
		{sec(3), Restoring},
		{sec(4), Judging},
		// Noise: it is played again, and fails while it is arranged.
		{sec(0.5), Arranging},
		{sec(1), Restoring},
		{sec(2), Judging},
	} {
		now = now.Add(part.took)
		w.Enter(part.then)
	}
	now = now.Add(sec(0.25))
	got := w.Stop()
	want := PhaseTimes{
		Arranging: Seconds(sec(3.5)), Baseline: Seconds(sec(3)), Stepping: Seconds(sec(10)), Settling: Seconds(sec(3)),
		Restoring: Seconds(sec(6)), Judging: Seconds(sec(0.75)),
	}
	for _, phase := range AllPhases() {
		if got[phase] != want[phase] {
			t.Errorf("%s: %v, want %v", phase, got[phase], want[phase])
		}
	}
	if wall := now.Sub(begun); time.Duration(got.Total()) != wall {
		t.Errorf("the phases are %s together, the wall time is %s", time.Duration(got.Total()), wall)
	}
	if got.Recorded() != Seconds(sec(16)) || got.overheadIn(got.Total()) != 26.25/16 {
		t.Errorf("recorded %v, overhead %v", got.Recorded(), got.overheadIn(got.Total()))
	}
	if text := got.String(); text != "3.5 arrange + 3.0 baseline + 10.0 steps + 3.0 settle + 6.0 restore + 0.8 judge" {
		t.Errorf("%s", text)
	}
}

// The drills of a run take as long as their phases and what lies between them.
func TestTheTimesOfARunAddUp(t *testing.T) {
	var timings Timings
	timings.Took(PhaseTimes{Arranging: Seconds(sec(2)), Stepping: Seconds(sec(20)), Restoring: Seconds(sec(1))})
	timings.Took(PhaseTimes{Arranging: Seconds(sec(1)), Settling: Seconds(sec(5))})
	timings.Ended(30 * time.Second)
	if sum := timings.Phases.Total() + timings.Between; sum != timings.Drills || timings.Between != Seconds(sec(1)) {
		t.Errorf("phases %v and %v between them are not %v", timings.Phases, timings.Between, timings.Drills)
	}
	if timings.Overhead != 1.2 {
		t.Errorf("overhead %v: 30 s with 25 s on record are 1.2 times", timings.Overhead)
	}
}

func TestWithoutARecordThereIsNoOverhead(t *testing.T) {
	var timings Timings
	timings.Took(PhaseTimes{Arranging: Seconds(sec(1))})
	timings.Ended(time.Second)
	if timings.Overhead != 0 {
		t.Errorf("%v, want 0", timings.Overhead)
	}
}
