package verdict

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
)

// observers checks whether the probers of an observation kept their schedules, and whether
// each was there to the end, or to that of its node: what a prober that died did not see is a
// hole, not a pass.
func (j judge) observers(v Verdict) Verdict {
	v = v.wants(fmt.Sprintf("each prober on record to the end of its node or of the observation, at most %.0f %% unsent, the 99th percentile at most %s late", loss.UnsentShare*100, loss.LateP99))
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
		return v.unknown(fmt.Sprintf("%d of %d probers were there when it began", there, probers))
	case whole == 0:
		return v.unknown("no prober was there from the beginning to the end", capped(evidence)...)
	}
	got := fmt.Sprintf("%d asked, %d unsent, 99th percentile %.1f ms late", asked, unsent, late*1000)
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		got += fmt.Sprintf("; %d of %d probers query %s", targets[target], len(all), target)
	}
	if left > 0 {
		got += fmt.Sprintf("; %d probers ended with their nodes", left)
	}
	if again := j.All(func(e history.Event) bool { return e.Kind == history.ProberResumed }); len(again) > 0 {
		got += fmt.Sprintf("; the connection to a prober broke %d times, and its record went on", len(again))
		evidence = append(evidence, again...)
	}
	return v.pass(got, capped(evidence)...)
}

// direct reports what the CoreDNS pods of an observation answered that were queried directly.
func (j judge) direct(v Verdict) string {
	if !j.target.Observed || j.target.Key != "" { // only those of CoreDNS are
		return ""
	}
	asked, lost := loss.AskedDirectly(j.Story, j.target)
	v.Numbers["asked_direct"], v.Numbers["lost_direct"] = float64(asked), float64(lost)
	return fmt.Sprintf("; of CoreDNS pods that were queried directly: %d of %d", lost, asked)
}
