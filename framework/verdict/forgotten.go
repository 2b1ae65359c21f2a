package verdict

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Forgotten has the parameters of checkForgotten.
type Forgotten struct {
	Node   string          `yaml:"node"`
	Within strict.Duration `yaml:"within"`
}

// Validate checks the parameters.
func (c Forgotten) Validate(in *scenarios.Scope) {
	in.OneOf("node", c.Node, in.Reclaimed())
	in.Positive("within", c.Within)
}

// DecidedBy is how long it needs the recording.
func (c Forgotten) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.Reclaimed[c.Node] + c.Within.D())
}

var checkForgotten = check{
	Kind: Kind{
		ID: "forgotten", Title: "%s forgotten",
		Requires: "When an instance is taken in the middle of its drain, its Node object is deleted within a time of that: nothing waits for pods that have ended with it.",
		Fix:      "look up in EC2 whether the instance of a NotReady node exists, and release the node at once if it does not",
		Look:     Look{Lane: LaneNode, Text: "the lanes of the node and of its pods: what was still there when the Node object was deleted? Then handler.log"},
	},
	judge: by(forgotten),
}

func forgotten(j judge, v Verdict, c Forgotten) Verdict {
	v = v.wants(fmt.Sprintf("its Node object deleted within %s of the end of its instance", c.Within.D()), c.Node)
	node, why := j.Node(c.Node)
	if why != "" {
		return v.unknown(why)
	}
	taken, ok := j.Reclaimed(node)
	if !ok {
		return v.unknown("the instance of " + node + " was not taken")
	}
	left := j.ToLeave(node, taken.At)
	if len(left) == 0 {
		return v.unknown(node+" was already drained when its instance was taken", taken)
	}
	limit := taken.At + c.Within.D()
	deleted, ok := j.DeletedAfter(node, taken.At)
	switch {
	case ok && deleted.At <= limit:
		v.Numbers = map[string]float64{"forgotten_seconds": (deleted.At - taken.At).Seconds()}
		return v.pass(fmt.Sprintf("%s gone after %s; %d pods were left on it", node, history.Seconds(deleted.At-taken.At), len(left)), taken, deleted)
	case !ok && j.Unseen(limit) != "":
		return v.unknown("still there: "+j.Unseen(limit), taken)
	}
	return v.fail(fmt.Sprintf("%s still there after %s", node, c.Within.D()), taken)
}
