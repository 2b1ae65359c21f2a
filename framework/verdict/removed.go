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
	Node string `yaml:"node"`
	// Of is the step because of which the node is removed: it configures the handler, or deletes
	// the Node object.
	Of string `yaml:"of"`
	// Within is the time from that step to the deletion of the Node object.
	Within strict.Duration `yaml:"within"`
}

// Validate checks the parameters.
func (c Removed) Validate(in *scenarios.Scope) {
	in.OneOf("node", c.Node, in.Disrupted())
	in.OneOf("of", c.Of, slices.Concat(in.Reconfigured(), in.Deletions()))
	in.Positive("within", c.Within)
}

// DecidedBy is how long it needs the recording.
func (c Removed) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.Sent[c.Of] + c.Within.D())
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

func removed(j judge, v Verdict, c Removed) Verdict {
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
