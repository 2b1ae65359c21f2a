package verdict

import (
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Judge judges the history by the scenario's checks and by those that always apply. A history that is cut
// off or has a hole shows neither that something happened nor that it did not: it passes and fails nothing.
// The same arguments always give the same result.
func Judge(s scenarios.Scenario, h history.History) Result {
	r := judgeWhole(s, h)
	if why := story.Broken(h); why != "" {
		for i, v := range r.Verdicts {
			if v.Outcome != Unknown {
				r.Verdicts[i].Outcome, r.Verdicts[i].Noise = Unknown, false
				r.Verdicts[i].Got = v.Got + ", but " + why
			}
		}
		r.Outcome = overall(r.Verdicts, false)
	}
	return r
}

// judgeWhole judges what is on record, as if that were all.
func judgeWhole(s scenarios.Scenario, h history.History) Result {
	j := newJudge(story.Read(s, h))
	s = j.Scenario
	r := resultOf(s)
	r.Set, r.Attempt, r.Handler, r.DNS, r.Losses = h.Meta.Set, h.Meta.Attempt, h.Meta.Handler, j.measured, j.attribution().Losses
	if second := h.Meta.Other; second != nil {
		r.Other = second.Name + " " + second.Version
	}
	if j.application != nil {
		r.Application, r.ApplicationLosses = j.application.measured, j.application.attribution().Losses
	}
	r.Story = j.Story
	for _, c := range s.Checks {
		r.Verdicts = append(r.Verdicts, j.check(c))
	}
	for _, c := range everyDrill() {
		if !c.appliesTo(s) {
			continue
		}
		if v, ok := c.always(j, c.verdict()); ok {
			r.Verdicts = append(r.Verdicts, v)
		}
	}
	_, stolen := j.Stolen(0, j.End)
	for i, v := range r.Verdicts {
		if v.Noise && stolen != "" {
			r.Verdicts[i].Got += "; " + stolen
		}
	}
	r.Outcome = overall(r.Verdicts, h.Complete)
	return r
}

// Ahead judges a drill whose recording is over and whose cluster has not been
// restored: as Judge does, without the two checks that need the history's end. Use it
// to decide what to do next, never for a report.
func Ahead(s scenarios.Scenario, h history.History) Result {
	r := judgeWhole(s, h)
	r.Verdicts = slices.DeleteFunc(r.Verdicts, func(v Verdict) bool { return v.ID == checkRecorded.ID || v.ID == checkRestored.ID })
	r.Outcome = overall(r.Verdicts, true)
	return r
}

// Decided reports whether what was recorded so far decides all of these checks of the
// scenario: none of them is Unknown, or only until the audit log is read. Use it to end a
// recording, never for a report.
func Decided(s scenarios.Scenario, h history.History, checks []scenarios.Check) bool {
	j := newJudge(story.Read(s, h))
	for _, c := range checks {
		if v := j.check(c); v.Outcome.Known() == Unknown && !v.awaitsAudit {
			return false
		}
	}
	return true
}

// check judges one check of the scenario. One that the catalogue does not have is
// Unknown, so that a new check cannot pass before it is evaluated.
func (j judge) check(c scenarios.Check) Verdict {
	known, ok := find(ID(c.Kind))
	if !ok || known.judge == nil || c.Requirement == nil {
		v := unknownCheck.verdict().requires("a check that this version can evaluate")
		return v.unknown(fmt.Sprintf("this version does not have check %q", c.Kind))
	}
	return j.longEnough(c, known.judge.judge(j, known.verdict(), c.Requirement))
}

// everyDrill are the checks that every drill must keep, in the order of a report: that of this
// list, and then any others.
func everyDrill() []check {
	order := []ID{
		"recordingComplete", "harness", "reservedUntouched", "untouchedWithoutCause", "restored", "lossesExplained", "oneDrainPerCause",
		"faultsInjected", "leastPrivilege", "noWildcard", "noMessageLost", "commitPoint", "control", "prober", "baseline",
	}
	rank := func(c check) int {
		if i := slices.Index(order, c.ID); i >= 0 {
			return i
		}
		return len(order)
	}
	all := slices.DeleteFunc(catalogue(), func(c check) bool { return c.always == nil })
	slices.SortStableFunc(all, func(a, b check) int { return rank(a) - rank(b) })
	return all
}

// Skip is the result of a scenario that is not played with the handler.
func Skip(s scenarios.Scenario, reason string) Result {
	r := resultOf(s)
	r.Outcome = Skipped
	want := "a handler that can be drilled here"
	switch {
	case s.Setting != "":
		want = "the handler has settings for " + s.Setting
	case s.Feature != "":
		want = "the handler claims " + s.Feature
	}
	v := applies.verdict().requires(want)
	r.Verdicts = []Verdict{v.found(Skipped, reason, nil)}
	return r
}

// NotRun is the result of a scenario whose run broke before it left a history.
func NotRun(s scenarios.Scenario, reason string) Result {
	r := resultOf(s)
	r.Outcome = Unknown
	r.Verdicts = []Verdict{notRun.verdict().requires("a history to judge").unknown(reason)}
	return r
}

// appliesTo reports whether a check that every drill must keep applies to a scenario's drills.
// What only observes puts nothing back.
func (c check) appliesTo(s scenarios.Scenario) bool {
	return s.Observe == nil || c.observes && (c.ID != checkRestored.ID || s.Observe.Permission != "")
}

// Tolerances are the bounds of this package and of package loss by name, each with its unit. A report
// holds them: with others, the same history may be judged otherwise.
func Tolerances() map[string]float64 {
	out := map[string]float64{
		"control_lost_share": controlLostShare,
		"asked_share":        loss.AskedShare, "gap_max_ms": loss.Milliseconds(loss.GapMax), "unsent_share": loss.UnsentShare, "late_p99_ms": loss.Milliseconds(loss.LateP99),
		"baseline_ms": loss.Milliseconds(loss.BaselineTime), "edge_ms": loss.Milliseconds(loss.Edge), "window_quiet_ms": loss.Milliseconds(history.Quiet),
		"binding_in_flight_ms": loss.Milliseconds(story.InFlight), "watch_late_ms": loss.Milliseconds(story.SeenLate), "clock_error_ms": loss.Milliseconds(story.ClockError),
		"unexplained_share": unexplainedShare, "unexplained_from": explainedFrom, "starved_ran_share": loss.StarvedRan,
	}
	for name, bound := range loss.Tolerances() {
		out[name+"_ms"] = loss.Milliseconds(bound)
	}
	return out
}
