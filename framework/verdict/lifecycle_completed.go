package verdict

import (
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// LifecycleCompleted has the parameters of checkLifecycleCompleted.
type LifecycleCompleted struct {
	NodeNotice `yaml:",inline"`
}

var checkLifecycleCompleted = by(Kind{
	ID: "lifecycleCompleted", Title: "lifecycle action of %s completed",
	Requires: "CompleteLifecycleAction is called with CONTINUE for the instance, not before the last pod that has to leave is gone, and before the heartbeat timeout, which is the deadline.",
	Fix:      "call CompleteLifecycleAction when the drain is over: earlier, and Auto Scaling ends the instance under the pods; never, and it waits for the heartbeat timeout",
	Look:     Look{Lane: LaneHandler, Text: "the lanes Handler and Pods: was the action completed before the last pod was gone, or never? Then handler.log"},
}, lifecycleCompleted)

func lifecycleCompleted(j judge, v Verdict, c LifecycleCompleted) Verdict {
	v = v.requires("CompleteLifecycleAction with CONTINUE, when the node is drained and before the heartbeat timeout", c.Node)
	node, put, why := j.Deadlined(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why, known(put)...)
	}
	until := j.Over(put)
	calls := j.All(func(e history.Event) bool {
		return e.Kind == history.LifecycleActed && e.Action == "CompleteLifecycleAction" && e.Instance == put.Instance && e.At >= put.At
	})
	abandoned := slices.IndexFunc(calls, func(e history.Event) bool { return e.LifecycleResult() != "CONTINUE" })
	v.Numbers = map[string]float64{"completed": float64(len(calls))}
	switch {
	case len(calls) == 0 && j.Unrecorded(until) != "":
		return v.unknown("not completed: "+j.Unrecorded(until), put)
	case len(calls) == 0:
		return v.fail("never completed", put)
	case abandoned >= 0:
		return v.fail("completed with "+calls[abandoned].LifecycleResult(), put, calls[abandoned])
	case calls[0].At > until:
		return v.fail(fmt.Sprintf("completed %s after the notice, when the heartbeat timeout was over", history.Seconds(calls[0].At-put.At)), put, calls[0])
	}
	completed := calls[0]
	v.Numbers["completed_seconds"] = (completed.At - put.At).Seconds()
	drained, ok := story.Drained(j.Story, node, put)
	switch {
	case !ok && j.Unseen(j.Over(put)) != "":
		return v.unknown("completed, and whether the node is drained is unknown: "+j.Unseen(j.Over(put)), put, completed)
	case !ok:
		return v.fail("completed, and the node never drained", put, completed)
	case completed.At < drained.Earliest:
		return v.fail(fmt.Sprintf("completed %s before the last pod was gone", history.Seconds(drained.Shown.At-completed.At)), put, completed, drained.Shown)
	}
	return v.pass(fmt.Sprintf("completed %s after the notice", history.Seconds(completed.At-put.At)), put, completed)
}
