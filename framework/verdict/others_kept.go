package verdict

import (
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// OthersKept has the parameters of checkOthersKept.
type OthersKept struct {
	// Node is a name under nodes, of a node with prepared.
	Node string `yaml:"node"`
}

// Validate checks the parameters.
func (c OthersKept) Validate(in *scenarios.Scope) {
	in.Node(c.Node)
	if in.Scenario.Nodes[c.Node].Prepared == nil {
		in.Problem("node", "nothing is prepared on %q, so that nothing is lost there proves nothing", c.Node)
	}
}

// DecidedBy is how long it needs the recording.
func (c OthersKept) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Absent(t.Stepped+scenarios.RepeatTime).On(c.Node, t)
}

var checkOthersKept = by(Kind{
	ID: "othersKept", Title: "others' state of %s kept",
	Requires: "The handler neither removes nor changes what others put on the node before the drill: taints with their effects, labels, annotations, and a cordon. What Kubernetes changes itself does not count.",
	Fix:      "change only the handler's own taint, labels and annotations: a merge patch replaces the whole list of taints, so name the resourceVersion that it is based on, and add to the list that was read",
	Look:     Look{Lane: LaneNode, Text: "the lane Node: what was taken off, and which of the handler's writes came just before? Then handler.log"},
}, othersKept)

func othersKept(j judge, v Verdict, c OthersKept) Verdict {
	v = v.requires("taints, labels, annotations and a cordon of others neither removed nor changed by the handler", c.Node)
	node, why := j.Node(c.Node)
	if why != "" {
		return v.unknown(why)
	}
	prepared := j.Prepared(node)
	if len(prepared) == 0 {
		return v.unknown("the history does not show that anything was prepared on " + node)
	}
	for _, p := range prepared {
		if !story.PreparedFound(j.Story, p) {
			return v.unknown(fmt.Sprintf("%s %s was not on %s when the drill began", p.Preparation(), p.Setting().Key, node), p)
		}
	}
	until := j.There(node)
	lost := j.All(func(e history.Event) bool {
		return e.Node == node && e.At >= j.Begun && e.At < until && j.takesOthers(e, prepared)
	})
	by := func(blame story.Blame) []history.Event {
		return filter(lost, func(e history.Event) bool { return j.Changed(e) == blame })
	}
	v.Numbers = map[string]float64{"prepared": float64(len(prepared)), "lost": float64(len(by(story.Blamed)))}
	wrote, acted := j.First(func(e history.Event) bool {
		return e.WroteNode() && e.Node == node
	})
	switch blamed, unclear := by(story.Blamed), by(story.Unclear); {
	case len(blamed) > 0:
		return v.fail(fmt.Sprintf("%s: %s (%s)", node, describe(blamed), blamed[0].Setting().Key), capped(blamed)...)
	case len(unclear) > 0:
		return v.unknown(node+": "+unclearWho(unclear), capped(unclear)...)
	case !acted:
		return v.unknown("nothing shows that the handler changed " + node + " at all")
	case j.Unseen(until) != "":
		return v.unknown("kept: "+j.Unseen(until), wrote)
	}
	return v.pass(fmt.Sprintf("%d kept", len(prepared)), prepared...)
}

// takesOthers reports whether by this event something is removed or replaced that others
// put on the node. A taint with another effect counts as removed.
func (j judge) takesOthers(e history.Event, prepared []history.Event) bool {
	if j.ByOperator(e) {
		return false
	}
	of := func(kind history.Preparation) bool {
		return slices.ContainsFunc(prepared, func(p history.Event) bool {
			return p.Preparation() == kind && p.Setting() == e.Setting()
		})
	}
	switch e.Kind {
	case history.NodeUncordoned:
		return of(history.PreparedCordon)
	case history.NodeUntainted:
		return of(history.PreparedTaint)
	case history.NodeLabelled, history.NodeAnnotated:
		return e.Note != "" && story.WasThere(j.Story, e)
	case history.NodeUnlabelled, history.NodeUnannotated:
		return story.WasThere(j.Story, e)
	}
	return false
}
