package verdict

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

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
