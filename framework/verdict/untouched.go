package verdict

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
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

var checkUntouched = by(Kind{
	ID: "untouched", Title: "untouched %s",
	Requires: "The node is neither cordoned, tainted nor deleted, and no pod of it is evicted or deleted.",
	Fix:      "find the node by the instance id in its providerID, and touch no other; a notice about a foreign instance is only deleted",
	Look:     Look{Lane: LaneNode, Text: "the lane Node: what was done, and after which notice? Then handler.log"},
}, untouched)

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
	if why := j.Unseen(j.Stays(node)); why != "" {
		return v.unknown(node + " not touched: " + why)
	}
	return v.pass(node + " not touched")
}

// untouchedAll requires that none of the chosen nodes is touched before a cause for it.
func (j judge) untouchedAll(v Verdict, chosen func(history.Event) bool) Verdict {
	nodes := map[string]bool{}
	var touched, unclear []history.Event
	for _, n := range j.Events {
		if n.Kind != history.NodePresent || nodes[n.Node] || !chosen(n) {
			continue
		}
		nodes[n.Node] = true
		causes := j.Causes(n.Node)
		causeless := func(e history.Event) bool { return len(causes) == 0 || e.At < causes[0].At }
		blamed, perhaps := j.Touches(n.Node)
		touched = append(touched, filter(blamed, causeless)...)
		unclear = append(unclear, filter(perhaps, causeless)...)
	}
	switch {
	case len(touched) > 0:
		return v.fail(fmt.Sprintf("%s: %s", touched[0].Node, describe(touched)), capped(touched)...)
	case len(nodes) == 0:
		return v.unknown("no such node was seen")
	case len(unclear) > 0:
		return v.unknown(fmt.Sprintf("%s: %s", unclear[0].Node, unclearWho(unclear)), capped(unclear)...)
	case j.Unseen(j.End) != "":
		return v.unknown("none touched: " + j.Unseen(j.End))
	}
	return v.pass(fmt.Sprintf("none of %d touched", len(nodes)))
}
