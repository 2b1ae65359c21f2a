package verdict

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/loss"
)

var checkControl = ifApplicable(Kind{
	ID: "control", Title: "control", ofRecord: true, observes: true,
	Requires: "A pod that stays, of CoreDNS or of the application, answers nearly all that it is sent directly; in a cluster that is not spotdrill's own, the responder within each prober does.",
	Fix:      "the machine was too busy to measure: free it of other work, give it more cores, or lower the probe's rates",
	Look:     Look{Lane: LaneDNS, Text: "the control below the DNS answers: this machine was too busy to measure; repeat with less running at the same time"},
}, probed(control))

// controlLostShare is how much the control may lose: beyond it the prober measures the machine. Up to
// it, what the service lost at the same time as the control is not blamed on CoreDNS, see
// loss.Attribution.Steady.
const controlLostShare = 0.01

// control checks whether the control target answered everything. Its failure is
// the prober's noise, so it is never a Fail.
func control(j judge, v Verdict) Verdict {
	v = v.requires(fmt.Sprintf("at most %.0f %% of the %s lost at %s", controlLostShare*100, j.target.Queries, j.target.Stays))
	s := j.measured.Control
	v.Numbers = map[string]float64{"asked_control": float64(s.Asked), "lost_control": float64(s.Lost), "latency_control_p99_ms": loss.Milliseconds(s.P99)}
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

// direct reports what the CoreDNS pods of an observation answered that were queried directly.
func (j judge) direct(v Verdict) string {
	if !j.target.Observed || j.target.Key != "" { // only those of CoreDNS are
		return ""
	}
	asked, lost := loss.AskedDirectly(j.Story, j.target)
	v.Numbers["asked_direct"], v.Numbers["lost_direct"] = float64(asked), float64(lost)
	return fmt.Sprintf("; of CoreDNS pods that were queried directly: %d of %d", lost, asked)
}
