package verdict

import (
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Judge holds the history to the scenario's checks and to those that always
// apply. The same arguments always give the same result.
func Judge(s scenarios.Scenario, h history.History) Result {
	d := newDrill(s, h)
	r := resultOf(s)
	r.Set, r.Attempt, r.Handler, r.DNS, r.Losses = h.Meta.Set, h.Meta.Attempt, h.Meta.Handler, d.dns, d.losses()
	for _, c := range s.Checks {
		r.Verdicts = append(r.Verdicts, d.check(c)...)
	}
	r.Verdicts = append(r.Verdicts, d.always()...)
	if v, ok := d.explained(r.Losses); ok {
		r.Verdicts = append(r.Verdicts, v)
	}
	r.Outcome = overall(r.Verdicts, h.Complete)
	return r
}

// Ahead judges a drill whose recording is over and whose cluster has not been put
// back: as Judge does, but for the two checks that ask for the history's end. What
// it says is for deciding what to do next, never for a report.
func Ahead(s scenarios.Scenario, h history.History) Result {
	r := Judge(s, h)
	r.Verdicts = slices.DeleteFunc(r.Verdicts, func(v Verdict) bool { return v.Check == checkRecorded || v.Check == checkRestored })
	r.Outcome = overall(r.Verdicts, true)
	return r
}

// check evaluates every alternative that is set. The loader lets exactly one
// through; one that no line below knows is Unknown, so a new kind of check
// cannot pass before it is evaluated.
func (d drill) check(c scenarios.Check) []Verdict {
	var out []Verdict
	if c.Marked != nil {
		out = append(out, d.marked(*c.Marked))
	}
	if c.Drained != nil {
		out = append(out, d.drained(*c.Drained))
	}
	if c.DaemonPodsLeft != nil {
		out = append(out, d.daemonPodsLeft(*c.DaemonPodsLeft))
	}
	if c.Deleted != nil {
		out = append(out, d.deleted(*c.Deleted))
	}
	if c.Untouched != nil {
		out = append(out, d.untouched(*c.Untouched))
	}
	if c.NoEviction != nil {
		out = append(out, d.noEviction())
	}
	if c.NodeEvent != nil {
		out = append(out, d.nodeEvent(*c.NodeEvent))
	}
	if c.DNSLost != nil {
		out = append(out, d.dnsLost(*c.DNSLost))
	}
	if c.DNSWindow != nil {
		out = append(out, d.dnsWindow(*c.DNSWindow))
	}
	if c.EndpointLeft != nil {
		out = append(out, d.endpointLeft(*c.EndpointLeft))
	}
	if c.DrainedOnce != nil {
		out = append(out, d.drainedOnce(*c.DrainedOnce))
	}
	if c.NotRestarted != nil {
		out = append(out, d.notRestarted())
	}
	if c.QueueEmpty != nil {
		out = append(out, d.queueEmpty())
	}
	if c.MidDrain != nil {
		out = append(out, d.midDrain(*c.MidDrain))
	}
	out = append(out, d.checkPods(c)...)
	if len(out) == 0 {
		v := Verdict{Check: "unknown check", Want: "a check that this version can evaluate"}
		return []Verdict{v.unknown("none of the checks that it knows")}
	}
	return out
}

// checkPods are the alternatives that ask for what became of certain pods.
func (d drill) checkPods(c scenarios.Check) []Verdict {
	var out []Verdict
	if c.NotScheduled != nil {
		out = append(out, d.notScheduled(*c.NotScheduled))
	}
	if c.Replaced != nil {
		out = append(out, d.replaced(*c.Replaced))
	}
	if c.GraceHonoured != nil {
		out = append(out, d.graceHonoured(*c.GraceHonoured))
	}
	if c.NotStalled != nil {
		out = append(out, d.notStalled(*c.NotStalled))
	}
	if c.CriticalLast != nil {
		out = append(out, d.criticalLast(*c.CriticalLast))
	}
	if c.PodsLeft != nil {
		out = append(out, d.podsLeft(*c.PodsLeft))
	}
	if c.BudgetKept != nil {
		out = append(out, d.budgetKept(*c.BudgetKept))
	}
	if c.Resumed != nil {
		out = append(out, d.resumed(*c.Resumed))
	}
	if c.BlockedReported != nil {
		out = append(out, d.blockedReported(*c.BlockedReported))
	}
	return out
}

// always are the checks that every drill is held to.
func (d drill) always() []Verdict {
	out := []Verdict{
		d.recorded(), d.harness(), d.reservedUntouched(), d.causeless(), d.oneDrainPerCause(),
		d.noneLost(), d.privileges(), d.restored(),
	}
	for _, where := range []func() (Verdict, bool){d.commitPoint, d.wildcards} {
		if v, ok := where(); ok {
			out = append(out, v)
		}
	}
	if slices.ContainsFunc(d.scenario.Steps, func(step scenarios.Step) bool { return step.Fault != nil }) {
		out = append(out, d.faults())
	}
	if d.scenario.Probe != nil {
		out = append(out, d.control(), d.prober(), d.baseline())
	}
	return out
}
