package verdict

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

var checkReplacedFirst = check{
	Kind: Kind{
		ID: "replacedFirst", Title: "%s replaced first",
		Requires: "The first pod of a node that the handler removes without a notice has to leave within a time of the configuration that calls for it, and only when as many nodes that were launched since are Ready as are drained then, or as the scenario requires.",
		Fix:      "nobody takes this instance, so there is time: launch the replacement, and evict the first pod when it is Ready",
		Look:     Look{Lane: LaneNode, Text: "the lanes of the nodes and pods: which node was launched, when was it Ready, and when did the first pod have to leave? Then handler.log"},
	},
	judge: by(replacedFirst),
}

func replacedFirst(j judge, v Verdict, c scenarios.ReplacedFirst) Verdict {
	v = v.wants(fmt.Sprintf("drained within %s of %q, when a node that was launched since is Ready", c.Within.D(), c.Of), c.Node)
	node, cause, why := j.configured(c.Node, c.Of)
	if why != "" {
		return v.unknown(why)
	}
	limit := cause.At + c.Within.D()
	first, leaves := j.FirstToLeave(node, cause)
	if !leaves || first.At > limit {
		if why := j.Unseen(limit); why != "" && !leaves {
			return v.unknown(fmt.Sprintf("no pod had to leave %s: %s", node, why), cause)
		}
		return v.fail(fmt.Sprintf("no pod had to leave %s within %s", node, c.Within.D()), cause)
	}
	launched, drained := j.LaunchedSince(cause), cmp.Or(c.Replacements, j.drainsBegun(cause, first.At))
	left := fmt.Sprintf("the first pod had to leave %s", node)
	v.Numbers = map[string]float64{"drain_seconds": (first.At - cause.At).Seconds()}
	if len(launched) < drained {
		return v.fail(fmt.Sprintf("%s, node %d of those that are removed, and %d launched nodes were ever Ready", left, drained, len(launched)), cause, first)
	}
	ready := launched[drained-1]
	if ready.At > first.At {
		return v.fail(fmt.Sprintf("%s %s before %s was Ready", left, history.Seconds(ready.At-first.At), ready.Node), cause, first, ready)
	}
	return v.pass(fmt.Sprintf("%s %s after %s was Ready", left, history.Seconds(first.At-ready.At), ready.Node), cause, ready, first)
}

// configured returns the node behind a name, and the event because of which the handler has
// to remove it.
func (j judge) configured(name, of string) (node string, cause history.Event, why string) {
	if node, why = j.Node(name); why != "" {
		return "", cause, why
	}
	cause, ok := j.First(func(e history.Event) bool { return story.RemovedFor(e, of) && e.Node == node })
	if !ok {
		why = fmt.Sprintf("%q never called for the removal of %s (%s)", of, node, name)
	}
	return node, cause, why
}

// drainsBegun is how many of the nodes that are removed for the same cause a pod had to leave
// by then.
func (j judge) drainsBegun(cause history.Event, by time.Duration) (n int) {
	for _, e := range j.All(func(e history.Event) bool { return story.RemovedFor(e, cause.Step()) }) {
		if first, ok := j.FirstToLeave(e.Node, e); ok && first.At <= by {
			n++
		}
	}
	return n
}

var checkRemoved = check{
	Kind: Kind{
		ID: "removed", Title: "%s removed",
		Requires: "A node that the handler removes without a notice is drained, its instance is terminated when the last pod that has to leave is gone, and its Node object is deleted last, within a time of the configuration, or of the deletion by hand, that calls for it.",
		Fix:      "evict the pods, wait until they are gone, terminate the instance, and delete the Node object last",
		Look:     Look{Lane: LaneNode, Text: "the lanes of the node and of its pods: which was still there when the instance was terminated? Then handler.log"},
	},
	judge: by(removed),
}

func removed(j judge, v Verdict, c scenarios.Removed) Verdict {
	v = v.wants(fmt.Sprintf("drained, its instance terminated, and its Node object deleted within %s of %q", c.Within.D(), c.Of), c.Node)
	node, cause, why := j.configured(c.Node, c.Of)
	if why != "" {
		return v.unknown(why)
	}
	limit := cause.At + c.Within.D()
	done := func(kind history.Kind) (history.Event, bool) {
		return j.First(func(e history.Event) bool { return e.Kind == kind && e.Node == node && e.At >= cause.At })
	}
	ended, terminated := done(history.InstanceEnded)
	deleted, gone := done(history.NodeDeleted)
	var killed []string // pods that were not gone before
	for _, p := range j.ToLeave(node, cause.At) {
		if left, ok := p.Left(); terminated && (!ok || left.At > ended.At) {
			killed = append(killed, p.Events[0].Pod)
		}
	}
	switch {
	case len(killed) > 0:
		return v.fail("not gone when the instance was terminated: "+strings.Join(killed, ", "), cause, ended)
	case gone && terminated && deleted.At < ended.At-story.EndSeen:
		return v.fail(fmt.Sprintf("the Node object of %s was deleted %s before its instance was terminated", node, history.Seconds(ended.At-deleted.At)), cause, deleted, ended)
	case terminated && gone && deleted.At <= limit:
		v.Numbers = map[string]float64{"removed_seconds": (deleted.At - cause.At).Seconds()}
		return v.pass(fmt.Sprintf("%s gone after %s", node, history.Seconds(deleted.At-cause.At)), cause, ended, deleted)
	}
	if why := j.Unseen(limit); why != "" && (!terminated || !gone) {
		return v.unknown(fmt.Sprintf("%s not removed: %s", node, why), cause)
	}
	return v.fail(fmt.Sprintf("%s not removed within %s", node, c.Within.D()), cause)
}
