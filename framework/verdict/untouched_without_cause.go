package verdict

import (
	"github.com/spotdrill/spotdrill/framework/history"
)

var checkCauseless = everywhere(Kind{
	ID: "untouchedWithoutCause", Title: "no node touched without a cause",
	Requires: "No spot node is touched before a notice or message named it, and no pod is evicted that is on no node.",
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
	return j.untouchedAll(v, func(e history.Event) bool { return e.Capacity() == history.Spot })
}
