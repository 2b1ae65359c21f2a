package verdict

import (
	"fmt"

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

// Tolerances are the bounds above and those of package loss by name, each with its unit. A report
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

// judgeable reports whether the streams that a check of the service selects can be
// believed. If not, the verdict has the reason.
func (j judge) judgeable(v Verdict, mode string) (Verdict, bool) {
	if j.measured == nil {
		return v.unknown("the scenario has no probe"), false
	}
	v.Numbers = j.measured.Numbers()
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

// andAfter is how a verdict's Want names the fault or disturbance whose end a countdown
// begins with.
func andAfter(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" and of the end of %q", name)
}
