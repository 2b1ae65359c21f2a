package verdict

import (
	"cmp"
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// ReplacedFirst has the parameters of checkReplacedFirst.
type ReplacedFirst struct {
	Node string `yaml:"node"`
	// Of is the step that configures the handler, because of which the node is removed.
	Of string `yaml:"of"`
	// Within is the time from that step until the first pod has to leave.
	Within strict.Duration `yaml:"within"`
	// Replacements is how many launched nodes must be Ready then; left out, as many as nodes
	// are drained by then.
	Replacements int `yaml:"replacements,omitempty"`
}

// Validate checks the parameters.
func (c ReplacedFirst) Validate(in *scenarios.Scope) {
	in.OneOf("node", c.Node, in.Disrupted)
	in.OneOf("of", c.Of, in.Reconfigured)
	in.Positive("within", c.Within)
	in.AtLeast0("replacements", c.Replacements)
}

// DecidedBy is how long it needs the recording.
func (c ReplacedFirst) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.Sent[c.Of] + c.Within.D())
}

var checkReplacedFirst = by(Kind{
	ID: "replacedFirst", Title: "%s replaced first",
	Requires: "The first pod of a node that the handler removes without a notice has to leave within a time of the configuration that calls for it, and only when as many nodes that were launched since are Ready as are drained then, or as the scenario requires. The node may be marked before.",
	Fix:      "nobody takes this instance, so there is time: launch the replacement, and evict the first pod when it is Ready",
	Look:     Look{Lane: LaneNode, Text: "the lanes of the nodes and pods: which node was launched, when was it Ready, and when did the first pod have to leave? Then handler.log"},
}, replacedFirst)

func replacedFirst(j judge, v Verdict, c ReplacedFirst) Verdict {
	v = v.requires(fmt.Sprintf("drained within %s of %q, when a node that was launched since is Ready", c.Within.D(), c.Of), c.Node)
	node, cause, why := story.Configured(j.Story, c.Node, c.Of)
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
	launched, drained := j.LaunchedSince(cause), cmp.Or(c.Replacements, story.DrainsBegun(j.Story, cause, first.At))
	left := fmt.Sprintf("the first pod had to leave %s", node)
	v.Numbers = map[string]float64{"drain_seconds": (first.At - cause.At).Seconds()}
	// That a node was launched may be seen after it is Ready.
	why = j.Unseen(first.At + story.EndSeen)
	if len(launched) < drained && why != "" {
		return v.unknown(fmt.Sprintf("%s, node %d of those that are removed, and %d launched nodes were Ready: %s", left, drained, len(launched), why), cause, first)
	}
	if len(launched) < drained {
		return v.fail(fmt.Sprintf("%s, node %d of those that are removed, and %d launched nodes were ever Ready", left, drained, len(launched)), cause, first)
	}
	ready := launched[drained-1]
	if ready.At > first.At {
		return v.fail(fmt.Sprintf("%s %s before %s was Ready", left, history.Seconds(ready.At-first.At), ready.Node), cause, first, ready)
	}
	return v.pass(fmt.Sprintf("%s %s after %s was Ready", left, history.Seconds(first.At-ready.At), ready.Node), cause, ready, first)
}
