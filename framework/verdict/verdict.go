// Package verdict judges a drill: a pure function from a scenario and its
// history to verdicts. It reads no clock, no file and no cluster, so a saved
// history can be judged again after a check was fixed.
package verdict

import (
	"slices"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Outcome is what a check found. The zero value is invalid and counts as
// Unknown everywhere.
type Outcome string

// The closed list of outcomes.
const (
	Pass    Outcome = "pass"
	Fail    Outcome = "fail"
	Unknown Outcome = "unknown" // could not be evaluated; never a pass
	Skipped Outcome = "skipped" // does not apply to the handler; only of a Result
)

// Known returns the outcome itself if it is one of the list, else Unknown.
func (o Outcome) Known() Outcome {
	if slices.Contains([]Outcome{Pass, Fail, Skipped}, o) {
		return o
	}
	return Unknown
}

// Worse reports whether the outcome is a worse one than the other.
func (o Outcome) Worse(other Outcome) bool {
	order := []Outcome{Skipped, Pass, Unknown, Fail}
	return slices.Index(order, o.Known()) > slices.Index(order, other.Known())
}

// Verdict is what one check found.
type Verdict struct {
	// ID is the kind of check.
	ID ID `yaml:"id"`
	// Subject is what of the scenario it is about: the name of a node, of pods, of a
	// notice; empty if it is about the drill.
	Subject string `yaml:"subject,omitempty"`
	// Premise is the check whose failure is why this one could not be evaluated.
	Premise ID `yaml:"premise,omitempty"`
	// Check is the name for people, of the check and its subject: "marked victim".
	Check   string  `yaml:"check"`
	Outcome Outcome `yaml:"outcome"`
	// Want is what the check requires, Got what the history shows.
	Want string `yaml:"want"`
	Got  string `yaml:"got"`
	// Evidence holds the Seq of the events that show it.
	Evidence []int `yaml:"evidence,omitempty,flow"`
	// Numbers are what was measured; every name ends in its unit, or counts.
	Numbers map[string]float64 `yaml:"numbers,omitempty"`
	// Noise reports whether the outcome is Unknown because the prober, its control or
	// the traffic before the fault could not be trusted: a repeat may settle it.
	Noise bool `yaml:"noise,omitempty"`
	// Counted is, of a check that does not count every lost query, what it did count
	// of the service's streams; else nil.
	Counted *loss.Measurement `yaml:"-"`
	// awaitsAudit reports whether the outcome is Unknown only until the API server's audit
	// log is read, after the recording: nothing that it requires can happen any more.
	awaitsAudit bool
}

func (v Verdict) pass(got string, evidence ...history.Event) Verdict {
	return v.found(Pass, got, evidence)
}

func (v Verdict) fail(got string, evidence ...history.Event) Verdict {
	return v.found(Fail, got, evidence)
}

func (v Verdict) unknown(got string, evidence ...history.Event) Verdict {
	return v.found(Unknown, got, evidence)
}

// noise is an unknown that a repeat may settle.
func (v Verdict) noise(got string, evidence ...history.Event) Verdict {
	v.Noise = true
	return v.found(Unknown, got, evidence)
}

func (v Verdict) found(o Outcome, got string, evidence []history.Event) Verdict {
	v.Outcome, v.Got = o, got
	for _, e := range evidence {
		v.Evidence = append(v.Evidence, e.Seq)
	}
	return v
}

// Result is a judged drill.
type Result struct {
	Scenario string          `yaml:"scenario"`
	Title    string          `yaml:"title"`
	Profile  string          `yaml:"profile"`
	Set      string          `yaml:"-"` // fast or full
	Attempt  int             `yaml:"-"` // from 1
	Handler  history.Handler `yaml:"-"`
	// Second is the name and version of the second handler; empty if there was none.
	Other   string           `yaml:"secondHandler,omitempty"`
	CoreDNS coredns.Settings `yaml:"coredns"`
	// Deadline, Settle and Probe are the scenario's other settings that times and
	// counts depend on; Digest is that of its whole text.
	Deadline scenarios.Deadline `yaml:"deadline,omitempty"`
	Settle   strict.Duration    `yaml:"settle,omitempty"`
	Probe    *scenarios.Probe   `yaml:"probe,omitempty"`
	Digest   string             `yaml:"scenarioDigest,omitempty"`

	Outcome  Outcome   `yaml:"outcome"`
	Verdicts []Verdict `yaml:"verdicts"`
	// Losses describes what the service's lost queries were lost to, most first.
	Losses []loss.Loss `yaml:"losses,omitempty"`
	// ApplicationLosses shows the same of the application's requests.
	ApplicationLosses []loss.Loss `yaml:"applicationLosses,omitempty"`
	// DNS is what was measured of DNS; nil without a probe. Application is what was measured of
	// the workload's Service; nil if it was not requested.
	DNS         *loss.Measurement `yaml:"-"`
	Application *loss.Measurement `yaml:"-"`
	// Story is the history as it was read; nil for a drill that was not judged.
	Story *story.Story `yaml:"-"`
}

func resultOf(s scenarios.Scenario) Result {
	return Result{
		Scenario: s.Name, Title: s.Title, Profile: s.Profile, CoreDNS: s.CoreDNS,
		Deadline: s.Deadline, Settle: s.Settle, Probe: s.Probe, Digest: s.Digest(),
	}
}

// NeedsRerun reports whether the result fails to pass only because of noise of the
// prober or its control: the drill proves nothing then, but a repeat may.
func NeedsRerun(r Result) bool {
	if r.Outcome.Known() != Unknown || len(r.Verdicts) == 0 {
		return false
	}
	return !slices.ContainsFunc(r.Verdicts, func(v Verdict) bool { return v.Outcome != Pass && !v.Noise })
}

// overall is the outcome of a drill with these verdicts. No verdicts at all
// prove nothing, and neither does anything else on a history cut short.
func overall(verdicts []Verdict, complete bool) Outcome {
	is := func(o Outcome) func(Verdict) bool {
		return func(v Verdict) bool { return v.Outcome == o }
	}
	switch {
	case slices.ContainsFunc(verdicts, is(Fail)):
		return Fail
	case !complete, len(verdicts) == 0:
		return Unknown
	case slices.ContainsFunc(verdicts, func(v Verdict) bool { return v.Outcome != Pass }):
		return Unknown
	}
	return Pass
}
