package verdict

import (
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
)

var checkCauseless = everywhere(Kind{
	ID: "untouchedWithoutCause", Title: "no node touched without a cause",
	Requires: "No spot node is touched before a notice or message named it, no pod is evicted that is on no node, and no node or pod of another drill is touched.",
	Fix:      "act only on nodes that a notice names; look in handler.log for what made it act",
	Look:     Look{Lane: LaneNode, Text: "the lane Node: what was done, and after which notice? Then handler.log"},
}, causeless)

// causeless checks whether spot nodes were touched before anything named them. A pod
// that is on no node never has to leave one.
func causeless(j judge, v Verdict) Verdict {
	v = v.requires("no spot node touched before a notice named it")
	if unbound := j.All(func(e history.Event) bool { return e.Node == "" && j.Evicts(e) }); len(unbound) > 0 {
		return v.fail("pods that were on no node: "+describe(unbound), capped(unbound)...)
	}
	if others := actsOnOthers(j); len(others) > 0 {
		return v.fail("the handler changed nodes or evicted pods that are not part of the drill: "+describe(others), capped(others)...)
	}
	return j.untouchedAll(v, func(e history.Event) bool { return e.Capacity() == history.Spot })
}

// actsOnOthers are the handler's changes of nodes, and its evictions of pods, that are not on record: those of a drill in
// another lane.
func actsOnOthers(j judge) []history.Event {
	nodes, pods := j.NodesSeen(), map[string]bool{}
	for _, p := range j.Pods {
		pods[p.Name()] = true
	}
	return j.All(func(e history.Event) bool {
		collection := strings.HasSuffix(e.Pod, "/")
		return e.WroteNode() && !nodes[e.Node] || e.Kind == history.HandlerTook && !pods[e.Pod] && !collection
	})
}
