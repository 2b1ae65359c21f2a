package verdict

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
)

var checkBaseline = ifApplicable(Kind{
	ID: "baseline", Title: "baseline", ofRecord: true, observes: true,
	Requires: "DNS, and an application that is probed, answered everything for a while before the first notice.",
	Fix:      "DNS lost queries before the first notice: free the machine of other work; if it continues, make the cluster again with spotdrill down",
	Look:     Look{Lane: LaneDNS, Text: "the DNS answers before the notice: losses after a fault prove nothing if there were some before"},
}, probed(baseline))

// baseline checks whether the service answered everything before the fault.
func baseline(j judge, v Verdict) Verdict {
	begun := "the first notice"
	if j.target.Observed {
		begun = "anything began"
	}
	v = v.requires(fmt.Sprintf("every query answered for %s before %s", loss.BaselineTime, begun))
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
