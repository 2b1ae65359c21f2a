package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

var checkCommitPoint = ifApplicable(Kind{
	ID: "commitPoint", Title: "commit point",
	Requires: "No message is deleted before the drain that it calls for has reached the commit point of the handler's description.",
	Fix:      "delete the message only at the commit point that the handler's description names: a handler that is killed before it would forget the notice",
	Look:     Look{Lane: LaneHandler, Text: "the lanes Handler and Node: was the message deleted before the node was marked or drained?"},
}, commitPoint)

// commitPoint checks whether the handler deleted a message only when its description
// reports that it may: once the drain is recorded, which shows as a mark on the
// node, or once it is done. It covers the notices that call for a drain in this
// scenario; ok is false if there is none, if the handler may delete what it has
// received, or if another handler next to it may be the one that drains.
func commitPoint(j judge, v Verdict) (Verdict, bool) {
	if j.History.Meta.Other != nil {
		return v, false
	}
	point := j.History.Meta.Handler.CommitPoint
	reached, known := map[history.CommitPoint]func(st *story.Story, node string, put history.Event) (story.Commit, bool){
		history.CommitRecorded: story.DrainRecorded, history.CommitDrained: story.Drained,
	}[point]
	if !known {
		return v, false
	}
	v = v.requires("no message deleted before the drain that it calls for is " + string(point))
	judged := 0
	for _, put := range j.All(func(e history.Event) bool { return e.Kind == history.NoticePut && j.callsForDrain(e) }) {
		for _, id := range j.MessagesOf(put) {
			// Only the first deletion counts.
			deleted, ok := j.First(func(e history.Event) bool { return e.Kind == history.SQSDeleted && e.Message == id })
			if !ok {
				continue
			}
			judged++
			arrived, clocks := story.DeletionArrived(j.Story, deleted)
			at, ok := reached(j.Story, put.Node, put)
			switch {
			case !ok && j.Unseen(arrived+clocks+story.SeenLate) != "":
				return v.unknown(fmt.Sprintf("message of %q deleted, and the drain of %s not %s: %s", put.Step(), put.Node, point, j.Unseen(arrived+clocks+story.SeenLate)), put, deleted), true
			case !ok:
				return v.fail(fmt.Sprintf("message of %q deleted, and the drain of %s never %s", put.Step(), put.Node, point), put, deleted), true
			case arrived+clocks < at.Earliest:
				return v.fail(fmt.Sprintf("message of %q deleted %s before the drain of %s was %s", put.Step(), history.Seconds(at.Shown.At-arrived), put.Node, point), put, deleted, at.Shown), true
			case arrived < at.Latest:
				return v.unknown(fmt.Sprintf("message of %q deleted %s before the drain of %s was surely %s: no write of the handler's in the audit log may have done it, or several may",
					put.Step(), history.Seconds(at.Latest-arrived), put.Node, point), put, deleted, at.Shown), true
			case arrived-clocks < at.Latest:
				return v.unknown(fmt.Sprintf("message of %q deleted %s after the drain of %s was %s, which is within the error of the clocks",
					put.Step(), history.Seconds(arrived-at.Latest), put.Node, point), put, deleted, at.Shown), true
			}
		}
	}
	v.Numbers = map[string]float64{"messages": float64(judged)}
	return v.pass(fmt.Sprintf("%s deleted in time", history.Count(judged, "message"))), judged > 0
}

// callsForDrain reports whether the scenario requires the node to be drained for the
// notice.
func (j judge) callsForDrain(put history.Event) bool {
	return slices.ContainsFunc(j.Scenario.Checks, func(check scenarios.Check) bool {
		c, ok := check.Requirement.(Drained)
		return ok && !c.Terminating && c.Notice == put.Step() && j.isNode(c.Node, put.Node)
	})
}

// isNode reports whether a name of the scenario stands for the node, or for nodes that it is one of.
func (j judge) isNode(name, node string) bool {
	if name == scenarios.FleetNodes {
		return strings.HasPrefix(j.Role(node), scenarios.FleetPrefix)
	}
	found, why := j.Node(name)
	return why == "" && found == node
}
