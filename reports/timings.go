package reports

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/reports/timeline"
)

// Timings are how long the parts of a run took.
type Timings struct {
	Setup  Seconds `yaml:"setupSeconds"`  // cluster, images, queue, handler
	Drills Seconds `yaml:"drillsSeconds"` // from the first drill's start to the last one's end
	// Phases are those of all drills, a self-check included. The drills took a little
	// longer than the phases together: Between is the rest.
	Phases  PhaseTimes `yaml:"phasesSeconds,omitempty"`
	Between Seconds    `yaml:"betweenSeconds,omitempty"`
	// Overhead is how many times as long the drills took as what they recorded.
	Overhead  float64          `yaml:"overhead,omitempty"`
	Scenarios []ScenarioTiming `yaml:"perScenario"`
}

// ScenarioTiming is the time of one scenario, all its attempts together.
type ScenarioTiming struct {
	Scenario string  `yaml:"scenario"`
	Expected Seconds `yaml:"expectedSeconds"` // of one attempt
	Measured Seconds `yaml:"measuredSeconds"`
	// Phases are empty for a scenario that was played at the same time as another, which has them.
	Phases PhaseTimes `yaml:"phasesSeconds,omitempty"`
}

// Took adds the phases of a drill.
func (t *Timings) Took(phases PhaseTimes) {
	if t.Phases == nil {
		t.Phases = PhaseTimes{}
	}
	for phase, took := range phases {
		t.Phases[phase] += took
	}
}

// Ended notes how long the drills took from the first one's start to the last one's end.
func (t *Timings) Ended(drills time.Duration) {
	t.Drills = Seconds(drills)
	t.Between = t.Drills - t.Phases.Total()
	t.Overhead = math.Round(t.Phases.overheadIn(t.Drills)*100) / 100
}

// Seconds is a duration that reports write as a number of seconds.
type Seconds time.Duration

// MarshalYAML writes seconds to the millisecond.
func (s Seconds) MarshalYAML() (any, error) {
	return math.Round(time.Duration(s).Seconds()*1000) / 1000, nil
}

// UnmarshalYAML reads what MarshalYAML writes.
func (s *Seconds) UnmarshalYAML(node *yaml.Node) error {
	v, err := strconv.ParseFloat(node.Value, 64)
	if err != nil || math.IsNaN(v) || v < 0 || v > maxSeconds {
		return fmt.Errorf("%q is not a number of seconds", node.Value)
	}
	*s = Seconds(math.Round(v*1000) * float64(time.Millisecond))
	return nil
}

// maxSeconds is a year: no run takes longer, and a Duration holds it.
const maxSeconds = 366 * 24 * 3600

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

// Waterfall is how much of the time before its deadline each step of a notice took,
// in seconds since the notice was put into the queue.
type Waterfall struct {
	Notice     string  `yaml:"notice"` // the step's name
	Node       string  `yaml:"node"`
	Deadline   Seconds `yaml:"deadlineSeconds,omitempty"`
	LocalStack Seconds `yaml:"localstackSeconds"` // its share of the time until the notice was received
	// Steps are those that were seen.
	Steps []WaterfallStep `yaml:"steps,flow"`
}

// WaterfallStep is one step of a notice.
type WaterfallStep struct {
	Name  string  `yaml:"name"`
	After Seconds `yaml:"seconds"`
}

func waterfalls(t *timeline.Timeline) []Waterfall {
	if t == nil {
		return nil
	}
	var out []Waterfall
	for _, w := range t.Waterfalls {
		fall := Waterfall{Notice: w.Notice, Node: w.Node, LocalStack: Seconds(w.Queue)}
		if put := w.Steps[0]; w.Deadline > put.At {
			fall.Deadline = Seconds(w.Deadline - put.At)
		}
		for _, s := range w.Steps {
			if s.Seen {
				fall.Steps = append(fall.Steps, WaterfallStep{s.Name, Seconds(s.After)})
			}
		}
		out = append(out, fall)
	}
	return out
}
