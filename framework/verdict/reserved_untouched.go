package verdict

import (
	"github.com/spotdrill/spotdrill/framework/history"
)

var checkReservedUntouched = everywhere(Kind{
	ID: "reservedUntouched", Title: "reserved nodes untouched",
	Requires: "No on-demand or control-plane node that no notice names is cordoned, tainted, deleted or drained.",
	Fix:      "act only on nodes that a notice names: on-demand nodes and the control plane are none of them here",
	Look:     Look{Lane: LaneNode, Text: "the lane Node: what was done, and after which notice? Then handler.log"},
}, reservedUntouched)

// reservedUntouched checks whether the on-demand and control-plane nodes that no
// notice names were left alone.
func reservedUntouched(j judge, v Verdict) Verdict {
	v = v.requires("no on-demand or control-plane node cordoned, tainted, deleted or drained")
	return j.untouchedAll(v, func(e history.Event) bool {
		return e.Capacity() == history.OnDemand || e.Capacity() == history.ControlPlane
	})
}
