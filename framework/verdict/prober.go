package verdict

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
)

var checkProber = ifApplicable(Kind{
	ID: "prober", Title: "prober", ofRecord: true, observes: true,
	Requires: "The prober sent its queries on time, and all of them are on record.",
	Fix:      "the machine was too busy to send queries on time: free it of other work, give it more cores, or lower the probe's rates",
	Look:     Look{Lane: LaneDNS, Text: "the queries that never left (amber): this machine was too busy to measure; repeat with less running at the same time"},
}, probed(prober))

// prober checks whether the prober kept its schedule and reported every query.
func prober(j judge, v Verdict) Verdict {
	if j.target.Observed {
		return j.observers(v)
	}
	v = v.requires(fmt.Sprintf("every query on record, at most %.0f %% unsent, the 99th percentile at most %s late", loss.UnsentShare*100, loss.LateP99))
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
			return v.noise(history.Count(int(dropped), "answer")+" came, but this machine was too busy to take them", e)
		}
		ended++
		asked, unsent, late = asked+e.Numbers[history.Asked], unsent+e.Numbers[history.UnsentQueries], max(late, e.Numbers[history.LateP99])
		evidence = append(evidence, e)
	}
	if ended == 0 {
		return v.unknown("the prober reported no result")
	}
	v.Numbers = map[string]float64{"asked": asked, "unsent": unsent, "late_p99_ms": late * 1000}
	total, missed := loss.OnRecord(j.Story)
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

// observers checks whether the probers of an observation kept their schedules, and whether
// each was there to the end, or to that of its node: what a prober that died did not see is a
// hole, not a pass.
func (j judge) observers(v Verdict) Verdict {
	v = v.requires(fmt.Sprintf("each prober on record to the end of its node or of the observation, at most %.0f %% unsent, the 99th percentile at most %s late", loss.UnsentShare*100, loss.LateP99))
	from, ok := j.Started()
	if !ok {
		return v.unknown("nothing began, so that nothing was observed")
	}
	to := loss.RecordedTo(j.Story)
	var evidence []history.Event
	asked, unsent, late, there, whole, left := 0, 0, 0.0, 0, 0, 0
	targets := map[string]int{}
	all := loss.Probers(j.Story, j.target)
	for _, p := range all {
		if why, e := p.Distrusted(); why != "" {
			found := v.unknown(fmt.Sprintf("the prober on %s: %s", p.Name, why), known(e)...)
			found.Noise = len(p.Broke) == 0
			return found
		}
		for _, e := range p.Ended {
			late = max(late, e.Numbers[history.LateP99])
		}
		targets[p.Target]++
		evidence = append(evidence, p.Ended...)
		asked, unsent = asked+p.Asked, unsent+p.Unsent
		if p.Begun < from-loss.BaselineTime {
			there++
		}
		if why := p.Missing(j.Story, j.target, from, to); why != "" {
			return v.unknown(fmt.Sprintf("the prober on %s: %s", p.Name, why), capped(slices.Concat(p.Broke, p.Ended))...)
		}
		if last := p.Sent[len(p.Sent)-1]; last < to {
			left++
		} else if p.Sent[0] <= from {
			whole++
		}
	}
	v.Numbers = map[string]float64{"probers": float64(there), "asked": float64(asked), "unsent": float64(unsent), "late_p99_ms": late * 1000}
	switch probers := j.Scenario.Probe.Probers; {
	case there < probers:
		return v.unknown(fmt.Sprintf("%d of %s there when it began", there, history.Count(probers, "prober")))
	case whole == 0:
		return v.unknown("no prober was there from the beginning to the end", capped(evidence)...)
	}
	got := fmt.Sprintf("%d asked, %d unsent, 99th percentile %.1f ms late", asked, unsent, late*1000)
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		got += fmt.Sprintf("; %d of %s query %s", targets[target], history.Count(len(all), "prober"), target)
	}
	if left > 0 {
		got += fmt.Sprintf("; probers that ended with their nodes: %d", left)
	}
	if again := j.All(func(e history.Event) bool { return e.Kind == history.ProberResumed }); len(again) > 0 {
		got += fmt.Sprintf("; the connection to a prober broke %s, and its record went on", history.Count(len(again), "time"))
		evidence = append(evidence, again...)
	}
	return v.pass(got, capped(evidence)...)
}
