package verdict

import (
	"github.com/spotdrill/spotdrill/framework/loss"
)

var checkExplained = check{
	Kind: Kind{
		ID: "lossesExplained", Title: "losses explained",
		Requires: "The record explains why queries were lost: all but a small share of them have a cause.",
		Fix:      "open the drill's report: queries were lost, and neither connection tracking nor the life of pods shows why; save the folder, it is worth an issue",
		Look:     Look{Lane: LaneDNS, Text: "the causes below the DNS answers, and flows.jsonl.gz of the drill"},
	},
	observes: true,
	always: func(j judge, v Verdict) (Verdict, bool) {
		if !loss.Tracked(j.Story) {
			return v, false
		}
		return probed(explained)(j, v)
	},
}
