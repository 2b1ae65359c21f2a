package verdict

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// WatchedAgain has the parameters of checkWatchedAgain.
type WatchedAgain struct {
	// Fault is a fault on the API server of type watch-ended.
	Fault  string          `yaml:"fault"`
	Within strict.Duration `yaml:"within"`
}

// Validate checks the parameters.
func (c WatchedAgain) Validate(in *scenarios.Scope) {
	in.APIFault("fault", c.Fault, history.WatchEnded)
	in.Positive("within", c.Within)
}

// DecidedBy is how long it needs the recording.
func (c WatchedAgain) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.Ended[c.Fault] + c.Within.D())
}

var checkWatchedAgain = check{
	Kind: Kind{
		ID: "watchedAgain", Title: "watched again after %s",
		Requires: "What the handler watched when the API server ended its watches, it watches again within a time.",
		Fix:      "begin another watch when one ends: an API server ends each after some minutes; client-go's informers and reflectors do",
		Look:     Look{Lane: LaneHandler, Text: "the lane Handler; then the events fault.hit and api.call of history.jsonl with the verb watch"},
	},
	judge: by(watchedAgain), needs: scenarios.Needs{Watch: true},
}

func watchedAgain(j judge, v Verdict, c WatchedAgain) Verdict {
	v = v.wants(fmt.Sprintf("each watch that was ended, begun again within %s of the fault's end", c.Within.D()), c.Fault)
	if why := j.APIUnrecorded(); why != "" {
		return v.unknown(why)
	}
	ended, ok := j.First(func(e history.Event) bool { return e.Kind == history.FaultEnded && e.Step() == c.Fault })
	if !ok {
		return v.unknown(fmt.Sprintf("fault %q did not end", c.Fault))
	}
	hits := j.All(func(e history.Event) bool { return e.Kind == history.FaultHit && e.Step() == c.Fault })
	if len(hits) == 0 {
		return v.unknown(fmt.Sprintf("fault %q ended no watch", c.Fault), ended)
	}
	until := ended.At + c.Within.D()
	evidence := []history.Event{ended}
	for _, hit := range hits {
		begun := j.APICalls(func(e history.Event) bool {
			return e.Action == "watch" && e.Resource == hit.Resource && e.IP == hit.IP && e.At > hit.At && e.At <= until && story.Done(e)
		})
		if len(begun) > 0 {
			evidence = append(evidence, hit, begun[0])
			continue
		}
		if why := j.Unrecorded(until); why != "" {
			return v.unknown(fmt.Sprintf("watch of %s not begun again: %s", hit.Resource, why), hit, ended)
		}
		return v.fail(fmt.Sprintf("watch of %s ended at +%s, and not begun again by +%s", hit.Resource, history.Seconds(hit.At), history.Seconds(until)), hit, ended)
	}
	return v.pass(fmt.Sprintf("%d watches ended and begun again", len(hits)), capped(evidence)...)
}
