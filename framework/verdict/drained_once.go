package verdict

import (
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// DrainedOnce has the parameters of checkDrainedOnce.
type DrainedOnce struct {
	Node string `yaml:"node"`
}

// Validate checks the parameters.
func (c DrainedOnce) Validate(in *scenarios.Scope) { in.Node(c.Node) }

// DecidedBy is how long it needs the recording.
func (c DrainedOnce) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Absent(t.Stepped+scenarios.RepeatTime).On(c.Node, t)
}

var checkDrainedOnce = by(Kind{
	ID: "drainedOnce", Title: "drained once %s",
	Requires: "Each mark that the handler's description names is put on the node at most once and one of them at least; the event that announces a drain, if the description names one, is sent exactly once.",
	Fix:      "remember on the node that its drain has begun (a taint, an annotation), and only delete the message of a notice that comes again",
	Look:     Look{Lane: LaneNode, Text: "the lanes Handler and Node: which message or restart came before the second mark or event? Then handler.log"},
}, drainedOnce)

func drainedOnce(j judge, v Verdict, c DrainedOnce) Verdict {
	handler := j.History.Meta.Handler
	want := "one drain: " + story.ClaimedMarks(handler) + " once"
	if handler.DrainEvent != "" {
		want += fmt.Sprintf(", event %s once", handler.DrainEvent)
	}
	v = v.requires(want, c.Node)
	node, why := j.Node(c.Node)
	if why != "" {
		return v.unknown(why)
	}
	until, signs := j.Stays(node), j.Signs(node)
	if sign, n := story.Most(signs); n > 1 {
		return v.fail(fmt.Sprintf("%s: %s %s, the last at +%s", node, sign, history.Count(n, "time"), history.Seconds(signs[sign][n-1].At)), capped(signs[sign])...)
	}
	marked := slices.Concat(signs[string(history.NodeCordoned)], signs[string(history.NodeTainted)])
	announced := signs[handler.DrainEvent]
	switch {
	case j.Unseen(until) != "":
		return v.unknown("no second drain: " + j.Unseen(until))
	case len(marked) == 0 && j.Unseen(c.DecidedBy(j.Scenario.Times(j.Events)).Until) != "":
		return v.unknown("no drain: " + j.Unseen(c.DecidedBy(j.Scenario.Times(j.Events)).Until))
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
