package verdict

import (
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/story"
)

// The limits within which a measurement is trusted.
const (
	// controlLostShare is how much the control may lose: beyond it the prober
	// measures the machine. Up to it, what the service lost at the same time as
	// the control is not blamed on CoreDNS, see loss.Attribution.Steady.
	controlLostShare = 0.01
)

// inFlight is how long after a mark a pod may still be bound to the node, through no
// fault of the handler's. It has to drain such a pod too, see story.Story.ToDrain.
const inFlight = story.InFlight

// seenLate is how much later than it happened a change of the cluster may be on
// record, compared with a call that went through the proxy: the watch has to
// deliver it first.
const seenLate = story.SeenLate

// mayBeInTime shows why something that a watch saw after a limit may have happened before
// it, or "".
func (j judge) mayBeInTime(seen history.Event, limit time.Duration) string {
	at, why := j.Earliest(seen)
	switch {
	case seen.At <= limit:
		return ""
	case at < limit && why != "":
		return "it may have been seen late: " + why
	case seen.At-seenLate < limit:
		return fmt.Sprintf("it may have been seen late: a watch takes up to %s", seenLate)
	}
	return ""
}

// handlerWaited reports that the handler was late because it had no processor: it would have
// acted by until, if it had not waited between from and at. It is empty if not.
func (j judge) handlerWaited(from, at, until time.Duration) string {
	waited := time.Duration(0)
	for pod, of := range loss.Starvations(j.Story) {
		if slices.ContainsFunc(j.Pods, func(p story.Pod) bool { return p.Name() == pod && p.OfHandler(j.History.Meta.Handler) }) {
			waited = max(waited, loss.Waited(of, from, at))
		}
	}
	if waited == 0 || at-waited > until {
		return ""
	}
	return fmt.Sprintf("this machine was busy: the handler had no processor for %s of that time", history.Seconds(waited))
}

// Tolerances are the bounds above and those of package loss by name, each with its unit. A report
// holds them: with others, the same history may be judged otherwise.
func Tolerances() map[string]float64 {
	out := map[string]float64{
		"control_lost_share": controlLostShare,
		"asked_share":        loss.AskedShare, "gap_max_ms": milliseconds(loss.GapMax), "unsent_share": loss.UnsentShare, "late_p99_ms": milliseconds(loss.LateP99),
		"baseline_ms": milliseconds(loss.BaselineTime), "edge_ms": milliseconds(loss.Edge), "window_quiet_ms": milliseconds(history.Quiet),
		"binding_in_flight_ms": milliseconds(inFlight), "watch_late_ms": milliseconds(seenLate), "clock_error_ms": milliseconds(clockError),
		"unexplained_share": unexplainedShare, "unexplained_from": explainedFrom, "starved_ran_share": loss.StarvedRan,
	}
	for name, bound := range loss.Tolerances() {
		out[name+"_ms"] = milliseconds(bound)
	}
	return out
}

// judgeable reports whether the streams that a check of the service selects can be
// believed. If not, the verdict has the reason.
func (j judge) judgeable(v Verdict, mode string) (Verdict, bool) {
	if j.measured == nil {
		return v.unknown("the scenario has no probe"), false
	}
	v.Numbers = numbersOf(*j.measured)
	for _, premise := range []Verdict{prober(j, checkProber.verdict()), control(j, checkControl.verdict()), baseline(j, checkBaseline.verdict())} {
		if premise.Outcome != Pass {
			v.Noise, v.Evidence, v.Premise = premise.Noise, premise.Evidence, premise.ID
			return v.unknown(premise.Check + ": " + premise.Got), false
		}
	}
	if len(j.measured.Streams(mode)) == 0 {
		return v.unknown(fmt.Sprintf("mode %q is not known", mode)), false
	}
	return v, true
}
