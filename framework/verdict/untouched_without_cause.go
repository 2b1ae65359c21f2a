package verdict

import (
	"github.com/spotdrill/spotdrill/framework/history"
)

var checkCauseless = everywhere(Kind{
	ID: "untouchedWithoutCause", Title: "no node touched without a cause",
	Requires: "No spot node is touched before a notice or message named it, no pod is evicted that is on no node, and no node is changed that is another drill's.",
	Fix:      "act only on nodes that a notice names; look in handler.log for what made it act",
	Look:     Look{Lane: LaneNode, Text: "the lane Node: what was done, and after which notice? Then handler.log"},
}, causeless)

// causeless checks whether spot nodes were touched before anything named them. A pod
// that is on no node never has to leave one. A node that is not on record is that of a drill in another lane.
func causeless(j judge, v Verdict) Verdict {
	v = v.requires("no spot node touched before a notice named it")
	if unbound := j.All(func(e history.Event) bool { return e.Node == "" && j.Evicts(e) }); len(unbound) > 0 {
		return v.fail("pods that were on no node: "+describe(unbound), capped(unbound)...)
	}
	seen := map[string]bool{}
	for _, e := range j.History.Events {
		if e.Kind == history.NodePresent {
			seen[e.Node] = true
		}
	}
	if strange := j.All(func(e history.Event) bool { return e.WroteNode() && !seen[e.Node] }); len(strange) > 0 {
		return v.fail("the handler changed nodes that are not part of the drill: "+describe(strange), capped(strange)...)
	}
	return j.untouchedAll(v, func(e history.Event) bool { return e.Capacity() == history.Spot })
}
