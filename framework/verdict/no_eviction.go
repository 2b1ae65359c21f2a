package verdict

import (
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// NoEviction has the parameters of checkNoEviction.
type NoEviction struct{}

// Validate checks the parameters.
func (NoEviction) Validate(*scenarios.Scope) {}

// DecidedBy is how long it needs the recording.
func (NoEviction) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Absent(t.Reaction())
}

var checkNoEviction = check{
	Kind: Kind{
		ID: "noEviction", Title: "no eviction",
		Requires: "No pod is evicted anywhere, the handler deletes none, and none of the workload is deleted. It is for reproducing an incident in which nothing drains the node.",
		Fix:      "nothing may evict in this drill: look whose event or audit record names the eviction",
		Look:     Look{Lane: LanePods, Text: "the lane Pods: who was evicted? Then handler.log"},
	},
	judge: by(noEviction),
}

func noEviction(j judge, v Verdict, _ NoEviction) Verdict {
	v = v.wants("no pod evicted anywhere, none deleted by the handler, and none of the workload deleted")
	taken := j.All(func(e history.Event) bool { return j.Takes(e) == story.Blamed })
	unclear := j.All(func(e history.Event) bool { return j.Takes(e) == story.Unclear })
	switch {
	case len(taken) > 0:
		return v.fail(describe(taken), capped(taken)...)
	case len(unclear) > 0:
		return v.unknown(unclearWho(unclear), capped(unclear)...)
	case !slices.ContainsFunc(j.Events, func(e history.Event) bool { return e.Kind == history.PodPresent }):
		return v.unknown("no pod was seen at all")
	case j.Unseen(j.End) != "":
		return v.unknown("none evicted: " + j.Unseen(j.End))
	}
	return v.pass("none evicted")
}
