package verdict

import (
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

var checkDrainedOnce = check{
	Kind: Kind{
		ID: "drainedOnce", Title: "drained once %s",
		Requires: "Each mark that the handler's description names is put on the node at most once and one of them at least; the event that announces a drain, exactly once.",
		Fix:      "remember on the node that its drain has begun (a taint, an annotation), and only delete the message of a notice that comes again",
		Look:     Look{Lane: LaneNode, Text: "the lanes Handler and Node: which message or restart came before the second mark or event? Then handler.log"},
	},
	judge: by(drainedOnce),
}

func drainedOnce(j judge, v Verdict, c scenarios.DrainedOnce) Verdict {
	handler := j.History.Meta.Handler
	want := "one drain: " + claimedMarks(handler) + " once"
	if handler.DrainEvent != "" {
		want += fmt.Sprintf(", event %s once", handler.DrainEvent)
	}
	v = v.wants(want, c.Node)
	node, why := j.Node(c.Node)
	if why != "" {
		return v.unknown(why)
	}
	gone, signs := j.Gone(node), j.Signs(node)
	if sign, n := story.Most(signs); n > 1 {
		return v.fail(fmt.Sprintf("%s: %s %d times, the last at +%s", node, sign, n, history.Seconds(signs[sign][n-1].At)), capped(signs[sign])...)
	}
	marked := slices.Concat(signs[string(history.NodeCordoned)], signs[string(history.NodeTainted)])
	announced := signs[handler.DrainEvent]
	switch {
	case j.Unseen(min(gone, j.End)) != "":
		return v.unknown("no second drain: " + j.Unseen(min(gone, j.End)))
	case len(marked) == 0:
		return v.fail(node + " never marked")
	case handler.DrainEvent != "" && len(announced) == 0:
		return v.unknown(fmt.Sprintf("%s marked, and no event %s: a second drain would not show", node, handler.DrainEvent), marked...)
	}
	if handler.DrainEvent == "" {
		return v.pass(node+" drained once, by its marks; the handler announces no drain", marked...)
	}
	return v.pass(node+" drained once", slices.Concat(marked, announced)...)
}

var checkOneDrainPerCause = check{
	Kind: Kind{
		ID: "oneDrainPerCause", Title: "one drain per node and cause",
		Requires: "No node is marked, and no drain of it announced, more often than notices and messages named it.",
		Fix:      "remember on the node that its drain has begun, and begin no other for a message that comes again or after a restart",
		Look:     Look{Lane: LaneNode, Text: "the lanes Handler and Node: which message or restart came before the second drain? Then handler.log"},
	},
	always: everywhere(oneDrainPerCause),
}

// oneDrainPerCause checks whether any node was drained more often than something
// called for it. Other checks judge which notices call for a drain.
func oneDrainPerCause(j judge, v Verdict) Verdict {
	v = v.wants("no node marked, or a drain of it announced, more often than it was named")
	nodes := map[string]bool{}
	drains := 0
	for _, e := range j.Events {
		if e.Kind != history.NodePresent || nodes[e.Node] {
			continue
		}
		nodes[e.Node] = true
		signs, causes := j.Signs(e.Node), j.Causes(e.Node)
		sign, n := story.Most(signs)
		drains += n
		if n > max(1, len(causes)) {
			return v.fail(fmt.Sprintf("%s: %s %d times, and named %d times", e.Node, sign, n, len(causes)), capped(slices.Concat(causes, signs[sign]))...)
		}
	}
	switch {
	case len(nodes) == 0:
		return v.unknown("no node was seen")
	case j.Unseen(j.End) != "":
		return v.unknown("no other drain: " + j.Unseen(j.End))
	}
	return v.pass(fmt.Sprintf("%d drains", drains))
}
