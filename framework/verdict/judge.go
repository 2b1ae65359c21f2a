package verdict

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Judge judges the history by the scenario's checks and by those that always apply.
// The same arguments always give the same result.
func Judge(s scenarios.Scenario, h history.History) Result {
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
	r.Outcome = overall(r.Verdicts, h.Complete)
	return r
}

// Ahead judges a drill whose recording is over and whose cluster has not been
// restored: as Judge does, without the two checks that need the history's end. Use it
// to decide what to do next, never for a report.
func Ahead(s scenarios.Scenario, h history.History) Result {
	r := Judge(s, h)
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

// judge reads a drill's story and finds what each check requires.
type judge struct {
	*story.Story
	target   loss.Target
	measured *loss.Measurement // of the target
	// attribution is why its queries were lost; found once, when it is needed: it looks at every query.
	attribution func() *loss.Attribution
	// application judges what was measured of the workload's Service; nil if nothing was.
	application *judge
}

func newJudge(st *story.Story) judge {
	j := judgeOf(st, loss.DNS(st.Scenario))
	if p := st.Scenario.Probe; p != nil && p.Application != nil {
		application := judgeOf(st, loss.Application(st.Scenario))
		j.application = &application
	}
	return j
}

func judgeOf(st *story.Story, t loss.Target) judge {
	measured := loss.Measure(st, t)
	return judge{Story: st, target: t, measured: measured, attribution: sync.OnceValue(func() *loss.Attribution {
		return loss.Attribute(st, t, measured)
	})}
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

// longEnough makes a pass Unknown if the recording is too short for it: what must not
// happen could still have happened.
func (j judge) longEnough(c scenarios.Check, v Verdict) Verdict {
	if v.Outcome != Pass {
		return v
	}
	needs := c.DecidedBy(j.Scenario.Times(j.Events))
	if needs.Early || j.Observed >= needs.Until {
		return v
	}
	v.Outcome = Unknown
	v.Got += fmt.Sprintf(", but recorded up to +%s, and +%s is needed to show it", history.Seconds(j.Observed), history.Seconds(needs.Until))
	return v
}

// describe names events for a verdict's Got: "node.cordoned, pod.evicted x 3".
func describe(events []history.Event) string {
	var kinds []string
	count := map[string]int{}
	for _, e := range events {
		count[string(e.Kind)]++
		if count[string(e.Kind)] == 1 {
			kinds = append(kinds, string(e.Kind))
		}
	}
	for i, k := range kinds {
		if count[k] > 1 {
			kinds[i] = fmt.Sprintf("%s x %d", k, count[k])
		}
	}
	return strings.Join(kinds, ", ")
}

// unclearWho reports that these events may be the handler's doing or not.
func unclearWho(events []history.Event) string {
	return describe(events) + "; the history does not show by whom"
}

// filter keeps the events that ok accepts.
func filter(events []history.Event, ok func(history.Event) bool) []history.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e history.Event) bool { return !ok(e) })
}

// capped keeps evidence short enough to be read.
func capped(events []history.Event) []history.Event {
	const most = 12
	return events[:min(len(events), most)]
}

// known leaves out the events that were not found.
func known(events ...history.Event) []history.Event {
	return slices.DeleteFunc(events, func(e history.Event) bool { return e.Kind == "" })
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
