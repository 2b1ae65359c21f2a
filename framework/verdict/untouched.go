package verdict

import (
	"github.com/spotdrill/spotdrill/scenarios"
)

// Untouched has the parameters of checkUntouched.
type Untouched struct {
	Node string `yaml:"node"`
}

// Validate checks the parameters.
func (c Untouched) Validate(in *scenarios.Scope) { in.Node(c.Node) }

// DecidedBy is how long it needs the recording.
func (c Untouched) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Absent(t.Reaction()).On(c.Node, t)
}

var checkUntouched = check{
	Kind: Kind{
		ID: "untouched", Title: "untouched %s",
		Requires: "The node is neither cordoned, tainted nor deleted, and no pod of it is evicted or deleted.",
		Fix:      "find the node by the instance id in its providerID, and touch no other; a notice about a foreign instance is only deleted",
		Look:     Look{Lane: LaneNode, Text: "the lane Node: what was done, and after which notice? Then handler.log"},
	},
	judge: by(untouched),
}

func untouched(j judge, v Verdict, c Untouched) Verdict {
	v = v.requires("neither cordoned, tainted nor deleted, and no pod evicted or deleted", c.Node)
	node, why := j.Node(c.Node)
	if why != "" {
		return v.unknown(why)
	}
	touches, unclear := j.Touches(node)
	if len(touches) > 0 {
		return v.fail(node+": "+describe(touches), capped(touches)...)
	}
	if len(unclear) > 0 {
		return v.unknown(node+": "+unclearWho(unclear), capped(unclear)...)
	}
	if why := j.Unseen(min(j.End, j.Gone(node))); why != "" {
		return v.unknown(node + " not touched: " + why)
	}
	return v.pass(node + " not touched")
}
