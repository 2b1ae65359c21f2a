package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Removed has the parameters of checkRemoved.
type Removed struct {
	// Node is the node that is removed. Left out, all instances that the notice names are terminated.
	Node string `yaml:"node,omitempty"`
	// Of is the step because of which it is removed: one that configures the handler or deletes the
	// Node object; without node, a notice with launchedSince. Left out, the cause is the end of the
	// node's instance.
	Of string `yaml:"of,omitempty"`
	// Within is the time from the cause to the deletion of the Node object, or to the end of the instances.
	Within strict.Duration `yaml:"within"`
}

// Validate checks the parameters.
func (c Removed) Validate(in *scenarios.Scope) {
	switch {
	case c.Node == "":
		in.OneOf("of", c.Of, in.Notices())
		if len(in.Named[c.Of]) > 0 {
			in.Problem("of", "%q names nodes: only a notice with launchedSince can name instances without one", c.Of)
		}
	case c.Of == "":
		in.OneOf("node", c.Node, in.Reclaimed)
	default:
		in.OneOf("node", c.Node, in.Disrupted)
		in.OneOf("of", c.Of, slices.Concat(in.Reconfigured, in.Deletions))
	}
	in.Positive("within", c.Within)
}

// DecidedBy is how long it needs the recording.
func (c Removed) DecidedBy(t scenarios.Times) scenarios.Observation {
	cause := t.Sent[c.Of]
	if c.Of == "" {
		cause = t.Reclaimed[c.Node]
	}
	return scenarios.Happens(cause + c.Within.D())
}

var checkRemoved = by(Kind{
	ID: "removed", Title: "%s removed, forgotten, or terminated", Verdicts: []ID{"removed", "forgotten", "terminated"},
	Requires: "The handler removes the node within a time. For a step that configures it, or a deletion by hand: the node is drained, its instance is terminated when the last pod that has to leave is gone, and its Node object is deleted last. For an instance that ends in the middle of its drain: the Node object is deleted, and nothing waits for pods that have ended with the instance. For a notice about instances that never became nodes: all of them are terminated; nobody else does that, and they are paid for.",
	Fix:      "evict the pods, wait until they are gone, terminate the instance, and delete the Node object last",
	Fixes: map[ID]string{
		"forgotten":  "if EC2 no longer has the instance of a NotReady node, release the node at once: nothing on it can be waited for",
		"terminated": "terminate every instance that was launched, also one that has no Node yet: find it by the id that the launch returned",
	},
	Look: Look{Lane: LaneNode, Text: "the lanes of the node and of its pods: which was still there when the instance ended, or the Node object was deleted? Then handler.log"},
}, func(j judge, v Verdict, c Removed) Verdict {
	switch {
	case c.Node == "":
		return terminated(j, v.as("terminated", "instances of %s terminated"), c)
	case c.Of == "":
		return forgotten(j, v.as("forgotten", "%s forgotten"), c)
	}
	return removed(j, v.as("removed", "%s removed"), c)
})

// removed judges the removal that a step calls for.
func removed(j judge, v Verdict, c Removed) Verdict {
	v = v.requires(fmt.Sprintf("drained, its instance terminated, and its Node object deleted within %s of %q", c.Within.D(), c.Of), c.Node)
	node, cause, why := story.Configured(j.Story, c.Node, c.Of)
	if why != "" {
		return v.unknown(why)
	}
	by := cause.At + c.Within.D()
	done := func(kind history.Kind) (history.Event, bool) {
		return j.First(func(e history.Event) bool { return e.Kind == kind && e.Node == node && e.At >= cause.At })
	}
	ended, terminated := done(history.InstanceEnded)
	deleted, gone := done(history.NodeDeleted)
	var killed []string // pods that were not gone before
	if terminated {
		for _, p := range story.NotLeft(j.Story, node, cause.At, ended.At) {
			killed = append(killed, p.Name())
		}
	}
	switch {
	case len(killed) > 0:
		return v.fail("not gone when the instance was terminated: "+strings.Join(killed, ", "), cause, ended)
	case gone && terminated && deleted.At < ended.At-story.EndSeen:
		return v.fail(fmt.Sprintf("the Node object of %s was deleted %s before its instance was terminated", node, history.Seconds(ended.At-deleted.At)), cause, deleted, ended)
	case terminated && gone && deleted.At <= by:
		v.Numbers = map[string]float64{"removed_seconds": (deleted.At - cause.At).Seconds()}
		return v.pass(fmt.Sprintf("%s gone after %s", node, history.Seconds(deleted.At-cause.At)), cause, ended, deleted)
	}
	if why := j.Unseen(by); why != "" && (!terminated || !gone) {
		return v.unknown(fmt.Sprintf("%s not removed: %s", node, why), cause)
	}
	return v.fail(fmt.Sprintf("%s not removed within %s", node, c.Within.D()), cause)
}

// forgotten judges the deletion of the Node object of an instance that ended during its drain.
func forgotten(j judge, v Verdict, c Removed) Verdict {
	v = v.requires(fmt.Sprintf("its Node object deleted within %s of the end of its instance", c.Within.D()), c.Node)
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
	by := taken.At + c.Within.D()
	deleted, ok := j.DeletedAfter(node, taken.At)
	switch {
	case ok && deleted.At <= by:
		v.Numbers = map[string]float64{"forgotten_seconds": (deleted.At - taken.At).Seconds()}
		return v.pass(fmt.Sprintf("%s gone after %s; %s left on it", node, history.Seconds(deleted.At-taken.At), history.Count(len(left), "pod")), taken, deleted)
	case !ok && j.Unseen(by) != "":
		return v.unknown("still there: "+j.Unseen(by), taken)
	}
	return v.fail(fmt.Sprintf("%s still there after %s", node, c.Within.D()), taken)
}

// terminated judges the end of instances that never became nodes.
func terminated(j judge, v Verdict, c Removed) Verdict {
	v = v.requires(fmt.Sprintf("every instance without a node terminated within %s", c.Within.D()), c.Of)
	named, last := 0, history.Event{}
	for _, put := range j.AllOf(history.NoticePut) {
		if put.Step() != c.Of {
			continue
		}
		joined, ok := j.First(func(e history.Event) bool { return e.Kind == history.InstanceJoined && e.Instance == put.Instance })
		if ok {
			return v.unknown(fmt.Sprintf("instance %s became node %s", put.Instance, joined.Node), put, joined)
		}
		by := put.At + c.Within.D()
		ended, ok := j.First(func(e history.Event) bool {
			return e.Kind == history.InstanceEnded && e.Instance == put.Instance && e.At >= put.At
		})
		switch {
		case !ok && j.Unseen(by) != "":
			return v.unknown(fmt.Sprintf("instance %s runs: %s", put.Instance, j.Unseen(by)), put)
		case !ok || ended.At > by:
			return v.fail(fmt.Sprintf("instance %s still runs after %s", put.Instance, c.Within.D()), put)
		}
		named, last = named+1, ended
		v.Numbers = map[string]float64{"terminated_seconds": (ended.At - put.At).Seconds()}
	}
	if named == 0 {
		return v.unknown(fmt.Sprintf("notice %q was never sent", c.Of))
	}
	return v.pass(fmt.Sprintf("%d terminated", named), last)
}
