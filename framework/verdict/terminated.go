package verdict

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Terminated has the parameters of checkTerminated.
type Terminated struct {
	// Notice is a notice with launchedSince.
	Notice string          `yaml:"notice"`
	Within strict.Duration `yaml:"within"`
}

// Validate checks the parameters.
func (c Terminated) Validate(in *scenarios.Scope) {
	in.OneOf("notice", c.Notice, in.Notices())
	if len(in.Named(c.Notice)) > 0 {
		in.Problem("notice", "%q names nodes: only a notice with launchedSince can name instances without one", c.Notice)
	}
	in.Positive("within", c.Within)
}

// DecidedBy is how long it needs the recording.
func (c Terminated) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.Sent[c.Notice] + c.Within.D())
}

var checkTerminated = check{
	Kind: Kind{
		ID: "terminated", Title: "instances of %s terminated",
		Requires: "The handler terminates every instance that a notice names and that never became a node, within a time of the notice: nobody else does, and it is paid for.",
		Fix:      "find the launch by the id of its instance, also before it has a Node, and give it up as if its node had been named",
		Look:     Look{Lane: LaneNode, Text: "the lane Handler: the notice's message, and which calls followed; then handler.log"},
	},
	judge: by(terminated),
}

func terminated(j judge, v Verdict, c Terminated) Verdict {
	v = v.wants(fmt.Sprintf("every instance without a node terminated within %s", c.Within.D()), c.Notice)
	named, last := 0, history.Event{}
	for _, put := range j.AllOf(history.NoticePut) {
		if put.Step() != c.Notice {
			continue
		}
		joined, ok := j.First(func(e history.Event) bool { return e.Kind == history.InstanceJoined && e.Instance == put.Instance })
		if ok {
			return v.unknown(fmt.Sprintf("instance %s became node %s", put.Instance, joined.Node), put, joined)
		}
		limit := put.At + c.Within.D()
		ended, ok := j.First(func(e history.Event) bool {
			return e.Kind == history.InstanceEnded && e.Instance == put.Instance && e.At >= put.At
		})
		switch {
		case !ok && j.Unseen(limit) != "":
			return v.unknown(fmt.Sprintf("instance %s runs: %s", put.Instance, j.Unseen(limit)), put)
		case !ok || ended.At > limit:
			return v.fail(fmt.Sprintf("instance %s still runs after %s", put.Instance, c.Within.D()), put)
		}
		named, last = named+1, ended
		v.Numbers = map[string]float64{"terminated_seconds": (ended.At - put.At).Seconds()}
	}
	if named == 0 {
		return v.unknown(fmt.Sprintf("notice %q was never sent", c.Notice))
	}
	return v.pass(fmt.Sprintf("%d terminated", named), last)
}
