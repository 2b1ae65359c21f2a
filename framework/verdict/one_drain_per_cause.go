package verdict

import (
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

var checkOneDrainPerCause = everywhere(Kind{
	ID: "oneDrainPerCause", Title: "one drain per node and cause",
	Requires: "No node is marked, and no drain of it announced, more often than notices and messages named it.",
	Fix:      "remember on the node that its drain has begun, and begin no other for a message that comes again or after a restart",
	Look:     Look{Lane: LaneNode, Text: "the lanes Handler and Node: which message or restart came before the second drain? Then handler.log"},
}, oneDrainPerCause)

// oneDrainPerCause checks whether any node was drained more often than something
// called for it. Other checks judge which notices call for a drain.
func oneDrainPerCause(j judge, v Verdict) Verdict {
	v = v.requires("no node marked, or a drain of it announced, more often than it was named")
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
			return v.fail(fmt.Sprintf("%s: %s %s, and named %s", e.Node, sign, history.Count(n, "time"), history.Count(len(causes), "time")), capped(slices.Concat(causes, signs[sign]))...)
		}
	}
	switch {
	case len(nodes) == 0:
		return v.unknown("no node was seen")
	case j.Unseen(j.End) != "":
		return v.unknown("no other drain: " + j.Unseen(j.End))
	}
	return v.pass(history.Count(drains, "drain"))
}
