// Package reports writes what became of a run: to the console, as JUnit XML and
// as YAML, and lays out the folder in which a run leaves its histories.
package reports

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// APIVersion and Kind head every report.
const (
	APIVersion = "spotdrill.dev/v1alpha1"
	Kind       = "DrillReport"
)

// Report is what one run found out about one handler.
type Report struct {
	APIVersion  string            `yaml:"apiVersion"`
	Kind        string            `yaml:"kind"`
	Handler     Handler           `yaml:"handler"`
	Set         scenarios.Set     `yaml:"set"`
	Run         string            `yaml:"run"` // see Folder
	Started     time.Time         `yaml:"started"`
	Environment map[string]string `yaml:"environment"`
	Timings     Timings           `yaml:"timings"`
	Summary     Counts            `yaml:"summary"`
	Profiles    []ProfileCounts   `yaml:"profiles"`
	Results     []Entry           `yaml:"results"`

	folder Folder
}

// Handler names the handler under test.
type Handler struct {
	Name    string `yaml:"name"`
	Version string `yaml:"version"`
}

// Timings says where the time went.
type Timings struct {
	Setup     Seconds          `yaml:"setupSeconds"`  // cluster, images, queue, handler
	Drills    Seconds          `yaml:"drillsSeconds"` // from the first drill's start to the last one's end
	Scenarios []ScenarioTiming `yaml:"perScenario"`
}

// ScenarioTiming is the time of one scenario, all its attempts together.
type ScenarioTiming struct {
	Scenario string  `yaml:"scenario"`
	Expected Seconds `yaml:"expectedSeconds"` // of one attempt
	Measured Seconds `yaml:"measuredSeconds"`
}

// Seconds is a duration that reports write as a number of seconds.
type Seconds time.Duration

// MarshalYAML writes seconds to the millisecond.
func (s Seconds) MarshalYAML() (any, error) {
	return math.Round(time.Duration(s).Seconds()*1000) / 1000, nil
}

// Entry is the outcome of one scenario in a report.
type Entry struct {
	verdict.Result `yaml:",inline"`
	Attempts       int     `yaml:"attempts"` // how many were made; the last one is judged
	Measured       Seconds `yaml:"seconds"`  // all attempts together
	Expected       Seconds `yaml:"-"`        // of one attempt
	// History is the folder of the judged attempt, relative to the run's; empty
	// where nothing was recorded.
	History string `yaml:"history,omitempty"`
	// Deviation is what the handler's description says of a clause that it is
	// known not to keep. It excuses nothing.
	Deviation string `yaml:"deviation,omitempty"`

	// evidence renders the events that verdicts cite, by Seq.
	evidence map[int]string
}

// NewEntry prepares a result for the reports. The history is only read for the
// events that its verdicts cite; a drill that left none passes the zero value.
func NewEntry(r verdict.Result, h history.History) Entry {
	cited := map[int]string{}
	for _, v := range r.Verdicts {
		for _, seq := range v.Evidence {
			cited[seq] = ""
		}
	}
	for _, e := range h.Events {
		if _, ok := cited[e.Seq]; ok {
			cited[e.Seq] = eventLine(e)
		}
	}
	e := Entry{Result: r, Attempts: max(1, r.Attempt), evidence: cited}
	if r.Outcome.Known() == verdict.Fail {
		e.Deviation = strings.TrimSpace(r.Handler.Deviations[r.Scenario])
	}
	return e
}

// New starts a report of a run in the folder.
func New(folder Folder, handler Handler, set scenarios.Set, environment map[string]string) *Report {
	return &Report{
		APIVersion: APIVersion, Kind: Kind, Handler: handler, Set: set,
		Run: folder.Run, Started: folder.started.UTC().Truncate(time.Second), Environment: environment,
		folder: folder,
	}
}

// Add appends an entry and counts it.
func (r *Report) Add(e Entry) {
	e.Outcome = e.Outcome.Known()
	r.Results = append(r.Results, e)
	r.Summary.Add(e.Outcome)
	if e.Outcome != verdict.Skipped {
		r.Timings.Scenarios = append(r.Timings.Scenarios, ScenarioTiming{e.Scenario, e.Expected, e.Measured})
	}
	i := slices.IndexFunc(r.Profiles, func(p ProfileCounts) bool { return p.Profile == e.Profile })
	if i < 0 {
		i = len(r.Profiles)
		r.Profiles = append(r.Profiles, ProfileCounts{Profile: e.Profile})
	}
	r.Profiles[i].Add(e.Outcome)
}

// rejudge is the command that judges an entry again.
func (r *Report) rejudge(e Entry) string {
	if e.History == "" {
		return ""
	}
	return "spotdrill judge " + filepath.ToSlash(filepath.Join(r.folder.Path, e.History))
}

// WriteYAML writes the report, fields in a stable order.
func (r *Report) WriteYAML(w io.Writer) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("write YAML report: %w", err)
	}
	return enc.Close()
}

// Counts says how many scenarios came to which outcome.
type Counts struct {
	Passed  int `yaml:"passed"`
	Failed  int `yaml:"failed"`
	Unknown int `yaml:"unknown"`
	Skipped int `yaml:"skipped"`
	Total   int `yaml:"total"`
}

// ProfileCounts are the counts of one profile.
type ProfileCounts struct {
	Profile string `yaml:"profile"`
	Counts  `yaml:",inline"`
}

// Add counts an outcome.
func (c *Counts) Add(o verdict.Outcome) {
	c.Total++
	switch o {
	case verdict.Pass:
		c.Passed++
	case verdict.Fail:
		c.Failed++
	case verdict.Skipped:
		c.Skipped++
	default:
		c.Unknown++
	}
}

// String is the closing line of a run: "13 passed, 0 failed". What could not be
// judged counts as failed.
func (c Counts) String() string {
	line := fmt.Sprintf("%d passed, %d failed", c.Passed, c.Failed+c.Unknown)
	if c.Skipped > 0 {
		line += fmt.Sprintf(", %d skipped", c.Skipped)
	}
	return line
}
