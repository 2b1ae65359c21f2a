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

var checkControl = check{
	Kind: Kind{
		ID: "control", Title: "control",
		Requires: "A pod that stays, of CoreDNS or of the application, answers nearly all that it is sent directly; in a cluster that is not spotdrill's own, the responder within each prober does.",
		Fix:      "the machine was too busy to measure: free it of other work, give it more cores, or lower the probe's rates",
		Look:     Look{Lane: LaneDNS, Text: "the control below the DNS answers: this machine was too busy to measure; repeat with less running at the same time"},
	},
	always: probed(control), observes: true,
}

// control checks whether the control target answered everything. Its failure is
// the prober's noise, so it is never a Fail.
func control(j judge, v Verdict) Verdict {
	v = v.wants(fmt.Sprintf("at most %.0f %% of the %s lost at %s", controlLostShare*100, j.target.Queries, j.target.Stays))
	s := j.measured.Control
	v.Numbers = map[string]float64{"asked_control": float64(s.Asked), "lost_control": float64(s.Lost), "latency_control_p99_ms": milliseconds(s.P99)}
	if s.Asked == 0 {
		return v.unknown("the control was never queried")
	}
	if why := s.Thin(j.Story, j.target.Direct); why != "" && !j.target.Observed { // else the prober's check knows
		return v.noise(why)
	}
	lost, without := s.Lost, ""
	if s.Lost > 0 {
		if explained, known := j.attribution().ExplainedAtControl(); known {
			lost -= explained
			v.Numbers["lost_no_processor"] = float64(explained)
			without = fmt.Sprintf(", without %d while its pod had no processor", explained)
		}
	}
	if float64(lost) > controlLostShare*float64(s.Asked) {
		return v.noise(fmt.Sprintf("%d of %d lost at the control%s: the prober's own noise", lost, s.Asked, without))
	}
	return v.pass(fmt.Sprintf("%d of %d lost%s%s", lost, s.Asked, without, j.direct(v)))
}

var checkProber = check{
	Kind: Kind{
		ID: "prober", Title: "prober",
		Requires: "The prober sent its queries on time, and all of them are on record.",
		Fix:      "the machine was too busy to send queries on time: free it of other work, give it more cores, or lower the probe's rates",
		Look:     Look{Lane: LaneDNS, Text: "the queries that never left (amber): this machine was too busy to measure; repeat with less running at the same time"},
	},
	always: probed(prober), observes: true,
}

// prober checks whether the prober kept its schedule and reported every query.
func prober(j judge, v Verdict) Verdict {
	if j.target.Observed {
		return j.observers(v)
	}
	v = v.wants(fmt.Sprintf("every query on record, at most %.0f %% unsent, the 99th percentile at most %s late", loss.UnsentShare*100, loss.LateP99))
	ended := 0
	asked, unsent, late := 0.0, 0.0, 0.0
	var evidence []history.Event
	for _, e := range j.History.Events {
		if e.Kind != history.ProberEnded {
			continue
		}
		for _, number := range []history.Number{history.Asked, history.UnsentQueries, history.LateP99} {
			if _, ok := e.Numbers[number]; !ok {
				return v.unknown(fmt.Sprintf("the prober did not report %s", number), e)
			}
		}
		if dropped := e.Numbers[history.Dropped]; dropped > 0 {
			return v.noise(fmt.Sprintf("%.0f answers came, but this machine was too busy to take them", dropped), e)
		}
		ended++
		asked, unsent, late = asked+e.Numbers[history.Asked], unsent+e.Numbers[history.UnsentQueries], max(late, e.Numbers[history.LateP99])
		evidence = append(evidence, e)
	}
	if ended == 0 {
		return v.unknown("the prober reported no result")
	}
	v.Numbers = map[string]float64{"asked": asked, "unsent": unsent, "late_p99_ms": late * 1000}
	missed, total := 0.0, 0.0
	for _, q := range j.History.Queries {
		if q.Target == history.Echo {
			continue // the prober's account is without it
		}
		total++
		if q.Outcome == history.Unsent {
			missed++
		}
	}
	// NaN keeps none of these.
	onRecord := asked > 0 && total >= asked
	sent := unsent/asked <= loss.UnsentShare && missed/total <= loss.UnsentShare
	inTime := late <= loss.LateP99.Seconds()
	switch {
	case !onRecord:
		return v.unknown(fmt.Sprintf("%.0f queries asked and %.0f on record", asked, total), evidence...)
	case !sent:
		return v.noise(fmt.Sprintf("%.0f of %.0f queries could not leave", max(unsent, missed), asked), evidence...)
	case !inTime:
		return v.noise(fmt.Sprintf("the 99th percentile left %.0f ms late", late*1000), evidence...)
	}
	streams := j.measured.Streams("all")
	for _, mode := range j.target.Modes() {
		if streams[mode].Asked == 0 {
			return v.unknown(fmt.Sprintf("no queries in mode %s", mode), evidence...)
		}
		if why := streams[mode].Thin(j.Story, j.target.Rate(mode)); why != "" {
			return v.noise(fmt.Sprintf("%s: %s", mode, why), evidence...)
		}
	}
	return v.pass(fmt.Sprintf("%.0f asked, %.0f unsent, 99th percentile %.1f ms late", asked, unsent, late*1000), evidence...)
}

var checkBaseline = check{
	Kind: Kind{
		ID: "baseline", Title: "baseline",
		Requires: "DNS, and an application that is probed, answered everything for a while before the first notice.",
		Fix:      "DNS lost queries before the first notice: free the machine of other work; if it continues, make the cluster again with spotdrill down",
		Look:     Look{Lane: LaneDNS, Text: "the DNS answers before the notice: losses after a fault prove nothing if there were some before"},
	},
	always: probed(baseline), observes: true,
}

// baseline checks whether the service answered everything before the fault.
func baseline(j judge, v Verdict) Verdict {
	begun := "the first notice"
	if j.target.Observed {
		begun = "anything began"
	}
	v = v.wants(fmt.Sprintf("every query answered for %s before %s", loss.BaselineTime, begun))
	at, ok := j.Started()
	switch {
	case !ok && j.target.Observed:
		return v.unknown("nothing began: DNS had not answered everything for long enough")
	case !ok:
		return v.unknown("no notice was put")
	case at < loss.BaselineTime:
		return v.unknown(fmt.Sprintf("%s came only %s after the recording's start", begun, history.Seconds(at)))
	}
	asked := 0
	streams := j.measured.Streams("all")
	for _, mode := range j.target.Modes() {
		inMode := 0
		for _, q := range streams[mode].Queries {
			if q.Intended >= at {
				break
			}
			inMode++
			if q.Outcome.Lost() && j.attribution().Cause(q) != loss.NoProcessor {
				return v.noise(fmt.Sprintf("a %s query of +%s was lost (%s) before %s", mode, history.Seconds(q.Intended), q.Outcome, begun))
			}
		}
		if expected := float64(j.target.Rate(mode)) * loss.BaselineTime.Seconds(); inMode == 0 || float64(inMode) < loss.AskedShare*expected {
			return v.noise(fmt.Sprintf("only %d %s queries before %s, %.0f expected", inMode, mode, begun, expected))
		}
		asked += inMode
	}
	return v.pass(fmt.Sprintf("%d answered", asked))
}
