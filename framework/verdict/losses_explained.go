package verdict

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/loss"
)

var checkExplained = ifApplicable(Kind{
	ID: "lossesExplained", Title: "losses explained", observes: true,
	Requires: "The record explains why queries were lost: all but a small share of them have a cause.",
	Fix:      "open the drill's report: queries were lost, and neither connection tracking nor the life of pods shows why; save the folder, it is worth an issue",
	Look:     Look{Lane: LaneDNS, Text: "the causes below the DNS answers, and flows.jsonl.gz of the drill"},
}, func(j judge, v Verdict) (Verdict, bool) {
	if !loss.Tracked(j.Story) {
		return v, false
	}
	return probed(explained)(j, v)
})

const (
	// unexplainedShare is how many of the lost queries may be without a cause.
	unexplainedShare = 0.05
	// explainedFrom is how many must be lost for a share of them to show anything.
	explainedFrom = 100
)

// explained checks whether the record shows why queries were lost: if it does not,
// something unknown happened in the drill.
func explained(j judge, v Verdict) Verdict {
	v = v.requires(fmt.Sprintf("at most %.0f %% of %d lost %s or more without a cause", unexplainedShare*100, explainedFrom, j.target.Queries))
	lost, without := 0, 0
	for _, l := range j.attribution().Losses {
		lost += l.Lost()
		if l.Cause == loss.Unexplained {
			without += l.Lost()
		}
	}
	v.Numbers = map[string]float64{"lost": float64(lost), "unexplained": float64(without)}
	got := fmt.Sprintf("%d of %d lost without a cause", without, lost)
	if lost >= explainedFrom && float64(without) > unexplainedShare*float64(lost) {
		return v.noise(got)
	}
	return v.pass(got)
}
