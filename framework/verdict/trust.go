package verdict

import (
	"fmt"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// The limits within which a measurement is trusted.
const (
	// controlLostShare is how much the control may lose: beyond it the prober
	// measures the machine. Up to it, what the service lost at the same time as
	// the control is not blamed on CoreDNS, see DNS.steady.
	controlLostShare = 0.01
	// controlLag is how late the control may answer while service queries are
	// lost: an idle pod answers within a few milliseconds. Whatever is in
	// flight when kube-proxy drops a pod's conntrack entries is lost, and a busy
	// machine has ten times as much in flight; such losses are not CoreDNS's.
	controlLag = 25 * time.Millisecond
	// shownLag is how late the control may answer while an outage is shown: half of
	// a resolver's timeout, so that queries lost meanwhile were not merely late too.
	shownLag = time.Second
	// lagReach is how far from a lost query such an answer counts.
	lagReach = history.Quiet / 2
	// askedShare is how much of a stream's schedule must be on record.
	askedShare = 0.9
	// gapMax is the longest time without a query on record in a stream. A longer
	// one could hide a whole window's edge, see history.Quiet.
	gapMax = history.Quiet / 2
	// unsentShare is how many queries may have failed to leave. gapMax bounds each hole
	// that they leave, and momentHole those that matter most.
	unsentShare = 0.02
	// lateP99 is how late a query may leave: below gapMax. Shared machines stall everything
	// on them for tens of milliseconds. Around the moments at which a drill may lose
	// queries, momentHole is stricter, see hidden.
	lateP99 = 200 * time.Millisecond
	// lateQuery is how late a query may leave whose loss is the cluster's: well below a
	// resolver's timeout, and a fifth of history.Quiet.
	lateQuery = 100 * time.Millisecond
	// baselineTime is for how long DNS must have answered everything before the
	// first notice: losses after a fault prove nothing if there were some before.
	baselineTime = time.Second
	// edge is how early before the end of settling the last query may lie.
	edge = time.Second
)

// inFlight is how long after a mark a pod may still be bound to the node, through no
// fault of the handler's. It has to drain such a pod too, see story.Story.ToDrain.
const inFlight = story.InFlight

// seenLate is how much later than it happened a change of the cluster may be on
// record, compared with a call that went through the proxy: the watch has to
// deliver it first.
const seenLate = story.SeenLate

// mayBeInTime says why something that a watch saw after a limit may have happened before
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

// Tolerances are the bounds above by name, each with its unit. A report holds
// them: with others, the same history may be judged otherwise.
func Tolerances() map[string]float64 {
	return map[string]float64{
		"control_lost_share": controlLostShare, "control_lag_ms": milliseconds(controlLag), "shown_lag_ms": milliseconds(shownLag), "control_lag_reach_ms": milliseconds(lagReach),
		"asked_share": askedShare, "gap_max_ms": milliseconds(gapMax), "unsent_share": unsentShare, "moment_hole_ms": milliseconds(momentHole), "moment_reach_ms": milliseconds(momentReach), "late_p99_ms": milliseconds(lateP99), "late_query_ms": milliseconds(lateQuery),
		"baseline_ms": milliseconds(baselineTime), "edge_ms": milliseconds(edge), "window_quiet_ms": milliseconds(history.Quiet),
		"binding_in_flight_ms": milliseconds(inFlight), "watch_late_ms": milliseconds(seenLate), "clock_error_ms": milliseconds(clockError),
		"loss_under_way_ms": milliseconds(underWay), "loss_rules_lag_ms": milliseconds(rulesLag), "loss_recorder_stall_ms": milliseconds(recorderStall),
		"unexplained_share": unexplainedShare, "unexplained_from": explainedFrom,
		"starved_from_ms": milliseconds(starvedFrom), "starved_ran_share": starvedRan, "starved_reach_ms": milliseconds(starvedReach), "starved_gap_ms": milliseconds(starvedGap),
		"loss_restart_before_ms": milliseconds(restartBefore), "loss_restart_after_ms": milliseconds(restartAfter),
	}
}

// judgeable reports whether the streams that a check of the service selects can be
// believed. If not, the verdict has the reason.
func (j judge) judgeable(v Verdict, mode string) (Verdict, bool) {
	if j.measured == nil {
		return v.unknown("the scenario has no probe"), false
	}
	v.Numbers = j.measured.numbers()
	for _, premise := range []Verdict{j.prober(checkProber.verdict()), j.control(checkControl.verdict()), j.baseline(checkBaseline.verdict())} {
		if premise.Outcome != Pass {
			v.Noise, v.Evidence, v.Premise = premise.Noise, premise.Evidence, premise.ID
			return v.unknown(premise.Check + ": " + premise.Got), false
		}
	}
	if len(j.measured.modes(mode)) == 0 {
		return v.unknown(fmt.Sprintf("mode %q is not known", mode)), false
	}
	return v, true
}

var checkControl = check{
	Kind: Kind{
		ID: "control", Title: "control",
		Requires: "A pod that stays, of CoreDNS or of the application, answers nearly all that it is sent directly; in a cluster that is not spotdrill's own, the responder within each prober does.",
		Fix:      "the machine was too busy to measure: free it of other work, give it more cores, or lower the probe's rates",
		Look:     Look{Lane: LaneDNS, Text: "the control below the DNS answers: this machine was too busy to measure; repeat with less beside it"},
	},
	always: probed(judge.control), observes: true,
}

// control checks whether the control target answered everything. Its failure is
// the prober's noise, so it is never a Fail.
func (j judge) control(v Verdict) Verdict {
	v = v.wants(fmt.Sprintf("at most %.0f %% of the %s lost at %s", controlLostShare*100, j.target.queries, j.target.stays))
	s := j.measured.Control
	v.Numbers = map[string]float64{"asked_control": float64(s.Asked), "lost_control": float64(s.Lost), "latency_control_p99_ms": milliseconds(s.P99)}
	if s.Asked == 0 {
		return v.unknown("the control was never queried")
	}
	if why := j.thin(s, j.target.direct); why != "" && !j.target.observed { // else the prober's check knows
		return v.noise(why)
	}
	lost, without := s.Lost, ""
	if of := j.starving()[j.controlPod()]; s.Lost > 0 && len(of) > 0 {
		j.traffic() // counts what was lost while a pod had no processor
		for _, q := range s.queries {
			if q.Outcome.Lost() && explainedBy(of, q) {
				lost--
			}
		}
		v.Numbers["lost_no_processor"] = float64(s.Lost - lost)
		without = fmt.Sprintf(", without %d while its pod had no processor", s.Lost-lost)
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
		Look:     Look{Lane: LaneDNS, Text: "the queries that never left (amber): this machine was too busy to measure; repeat with less beside it"},
	},
	always: probed(judge.prober), observes: true,
}

// prober checks whether the prober kept its schedule and reported every query.
func (j judge) prober(v Verdict) Verdict {
	if j.target.observed {
		return j.observers(v)
	}
	v = v.wants(fmt.Sprintf("every query on record, at most %.0f %% unsent, the 99th percentile at most %s late", unsentShare*100, lateP99))
	ended := 0
	asked, unsent, late := 0.0, 0.0, 0.0
	var evidence []history.Event
	for _, e := range j.History.Events {
		if e.Kind != history.ProberEnded {
			continue
		}
		for _, number := range []history.Number{history.Asked, history.UnsentQueries, history.LateP99} {
			if _, ok := e.Numbers[number]; !ok {
				return v.unknown(fmt.Sprintf("the prober did not say %s", number), e)
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
		return v.unknown("the prober never said how it went")
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
	sent := unsent/asked <= unsentShare && missed/total <= unsentShare
	inTime := late <= lateP99.Seconds()
	switch {
	case !onRecord:
		return v.unknown(fmt.Sprintf("%.0f queries asked and %.0f on record", asked, total), evidence...)
	case !sent:
		return v.noise(fmt.Sprintf("%.0f of %.0f queries could not leave", max(unsent, missed), asked), evidence...)
	case !inTime:
		return v.noise(fmt.Sprintf("the 99th percentile left %.0f ms late", late*1000), evidence...)
	}
	streams := j.measured.modes("all")
	for _, mode := range j.target.modes() {
		if streams[mode].Asked == 0 {
			return v.unknown(fmt.Sprintf("no queries in mode %s", mode), evidence...)
		}
		if why := j.thin(streams[mode], j.target.rate(mode)); why != "" {
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
	always: probed(judge.baseline), observes: true,
}

// baseline checks whether the service answered everything before the fault.
func (j judge) baseline(v Verdict) Verdict {
	begun := "the first notice"
	if j.target.observed {
		begun = "anything began"
	}
	v = v.wants(fmt.Sprintf("every query answered for %s before %s", baselineTime, begun))
	at, ok := j.Started()
	switch {
	case !ok && j.target.observed:
		return v.unknown("nothing began: DNS had not answered everything for long enough")
	case !ok:
		return v.unknown("no notice was put")
	case at < baselineTime:
		return v.unknown(fmt.Sprintf("%s came only %s after the recording's start", begun, history.Seconds(at)))
	}
	asked := 0
	streams := j.measured.modes("all")
	for _, mode := range j.target.modes() {
		inMode := 0
		for _, q := range streams[mode].queries {
			if q.Intended >= at {
				break
			}
			inMode++
			if cause := j.lossCause(q); q.Outcome.Lost() && cause != NoProcessor {
				return v.noise(fmt.Sprintf("a %s query of +%s was lost (%s) before %s", mode, history.Seconds(q.Intended), q.Outcome, begun))
			}
		}
		if expected := float64(j.target.rate(mode)) * baselineTime.Seconds(); inMode == 0 || float64(inMode) < askedShare*expected {
			return v.noise(fmt.Sprintf("only %d %s queries before %s, %.0f expected", inMode, mode, begun, expected))
		}
		asked += inMode
	}
	return v.pass(fmt.Sprintf("%d answered", asked))
}

// thin says why a stream is not dense enough to be believed, given its rate in
// queries per second.
func (j judge) thin(s Stream, rate int) string {
	from, _ := j.Started()
	from -= baselineTime
	to := j.Observed
	for _, e := range j.Events {
		if history.Settle.BegunBy(e) {
			to = min(to, e.At+j.Scenario.Settle.D()) - edge
			break
		}
	}
	if last := s.queries[len(s.queries)-1].Intended; last < to {
		return fmt.Sprintf("the last query is of +%s, the drill went on until +%s", history.Seconds(last), history.Seconds(to))
	}
	if first := s.queries[0].Intended; first > from+gapMax {
		return fmt.Sprintf("the first query is of +%s, too late for the baseline from +%s", history.Seconds(first), history.Seconds(from))
	}
	asked := 0
	for i, q := range s.queries {
		if q.Intended <= to {
			asked++
		}
		if i > 0 && q.Intended-s.queries[i-1].Intended > gapMax {
			return fmt.Sprintf("no query on record between +%s and +%s", history.Seconds(s.queries[i-1].Intended), history.Seconds(q.Intended))
		}
	}
	if expected := float64(rate) * (to - from).Seconds(); float64(asked) < askedShare*expected {
		return fmt.Sprintf("%d queries on record, %.0f expected", asked, expected)
	}
	return ""
}
