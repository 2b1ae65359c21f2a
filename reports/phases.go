package reports

import (
	"fmt"
	"strings"
	"time"
)

// Phase is a part of a drill's wall time.
type Phase string

// The phases, in their order. A drill that is played again goes through them again.
const (
	Arranging Phase = "arrange"  // the cluster is prepared, pods start
	Baseline  Phase = "baseline" // recording starts, and DNS must answer for some time
	Stepping  Phase = "steps"    // of the scenario
	Settling  Phase = "settle"   // of the scenario, until all of it is on record
	Restoring Phase = "restore"  // the cluster is put back
	Judging   Phase = "judge"    // the history is judged, and files are written
)

// AllPhases lists every phase.
func AllPhases() []Phase { return []Phase{Arranging, Baseline, Stepping, Settling, Restoring, Judging} }

// recorded reports whether a drill is recorded in this phase. These phases take as long as
// the scenario and the handler need; the others are overhead of the harness.
func (p Phase) recorded() bool { return p == Baseline || p == Stepping || p == Settling }

// PhaseTimes are how long the phases took; together they are the wall time.
type PhaseTimes map[Phase]Seconds

// Total is the time of all phases.
func (t PhaseTimes) Total() Seconds { return t.sum(func(Phase) bool { return true }) }

// Recorded is the time in which something was recorded.
func (t PhaseTimes) Recorded() Seconds { return t.sum(Phase.recorded) }

// overheadIn is how many times as long as the recorded phases a wall time is; 0 if nothing
// was recorded.
func (t PhaseTimes) overheadIn(wall Seconds) float64 {
	if t.Recorded() == 0 {
		return 0
	}
	return float64(wall) / float64(t.Recorded())
}

func (t PhaseTimes) sum(of func(Phase) bool) Seconds {
	var total Seconds
	for phase, took := range t {
		if of(phase) {
			total += took
		}
	}
	return total
}

// String is "2.1 arrange + 0.1 baseline + …", in seconds.
func (t PhaseTimes) String() string {
	var out []string
	for _, phase := range AllPhases() {
		if took, ok := t[phase]; ok {
			out = append(out, fmt.Sprintf("%.1f %s", time.Duration(took).Seconds(), phase))
		}
	}
	return strings.Join(out, " + ")
}

// Stopwatch divides a wall time into phases: every moment belongs to the phase that began
// last, so that together they are the whole time.
type Stopwatch struct {
	now   func() time.Time
	since time.Time
	phase Phase
	times PhaseTimes
}

// NewStopwatch begins with Arranging. Now is the clock, such as time.Now.
func NewStopwatch(now func() time.Time) *Stopwatch {
	return &Stopwatch{now: now, since: now(), phase: Arranging, times: PhaseTimes{}}
}

// Enter ends the phase and begins another.
func (w *Stopwatch) Enter(phase Phase) {
	now := w.now()
	w.times[w.phase] += Seconds(now.Sub(w.since))
	w.since, w.phase = now, phase
}

// Phase is the one that runs now.
func (w *Stopwatch) Phase() Phase { return w.phase }

// Stop ends the last phase and returns all of them.
func (w *Stopwatch) Stop() PhaseTimes {
	w.Enter(w.phase)
	return w.times
}
