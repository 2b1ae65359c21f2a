package verdict

import (
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

var checkRecorded = everywhere(Kind{
	ID: "recordingComplete", Title: "recording complete", ofRecord: true, observes: true,
	Requires: "The history is whole: all phases, every event, and nothing that changes without having been seen to exist.",
	Fix:      "the run was cut short: play it again; if it was not stopped by hand, the harness's error is reported next to it",
	Look:     Look{Text: "what the harness itself reported: the note, the console's output and the files of the drill"},
}, recorded)

// recorded checks whether the history is complete: what an incomplete record does
// not hold may still have happened.
func recorded(j judge, v Verdict) Verdict {
	v = v.requires("a whole history of this scenario, from its first event to its last")
	h := j.History
	if !h.Complete {
		if h.Damage == "" {
			return v.unknown("not marked complete")
		}
		return v.unknown(h.Damage)
	}
	if h.Meta.Scenario != j.Scenario.Name {
		return v.unknown(fmt.Sprintf("the history is of scenario %q", h.Meta.Scenario))
	}
	if why := story.Broken(h); why != "" {
		return v.unknown(why)
	}
	for _, phase := range []history.Phase{history.Steps, history.Settle, history.Restore} {
		if !slices.ContainsFunc(h.Events, phase.BegunBy) {
			return v.unknown(fmt.Sprintf("phase %q was never entered", phase))
		}
	}
	if e, why := story.OutOfNowhere(j.Story); why != "" {
		return v.unknown(why, e)
	}
	return v.pass(fmt.Sprintf("%s and %s", history.Count(len(h.Events), "event"), history.Count(len(h.Queries), "query")))
}
