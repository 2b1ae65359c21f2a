package verdict

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// MidDrain has the parameters of checkMidDrain.
type MidDrain struct {
	// Disturbance is a disturb step.
	Disturbance string `yaml:"disturbance"`
	Node        string `yaml:"node"`
}

// Validate checks the parameters.
func (c MidDrain) Validate(in *scenarios.Scope) {
	in.Node(c.Node)
	in.OneOf("disturbance", c.Disturbance, in.Disturbances)
}

// DecidedBy is how long it needs the recording.
func (MidDrain) DecidedBy(scenarios.Times) scenarios.Observation { return scenarios.AtEnd() }

var checkMidDrain = by(Kind{
	ID: "midDrain", Title: "%s in the middle of the drain of %s", ofRecord: true,
	Requires: "The handler was disturbed when the drain had begun and pods were still on the node; otherwise surviving it proves nothing.",
	Fix:      "the drain was over, or had not begun, when the handler was disturbed: play the drill again; if it stays so, the handler drains faster than this scenario can see",
	Look:     Look{Lane: LaneHandler, Text: "the lanes Handler and Pods: when the handler was disturbed, and which pods were left then"},
}, midDrain)

func midDrain(j judge, v Verdict, c MidDrain) Verdict {
	v = v.requires("the handler disturbed once the drain had begun, and before the last pod was gone", c.Disturbance, c.Node)
	node, why := j.Node(c.Node)
	if why != "" {
		return v.unknown(why)
	}
	done := j.All(func(e history.Event) bool { return e.Kind == history.HandlerDisturbed && e.Step() == c.Disturbance })
	if len(done) == 0 {
		return v.unknown(fmt.Sprintf("disturbance %q never began", c.Disturbance))
	}
	at := done[0]
	if why := story.WithoutEffect(j.Story, done); why != "" {
		return v.unknown(why, at)
	}
	begun, ok := j.DrainBegun(node)
	if !ok || begun.At > at.At {
		return v.unknown("no drain of "+node+" had begun", at)
	}
	left := len(story.NotLeft(j.Story, node, begun.At, at.At))
	v.Numbers = map[string]float64{"left": float64(left), "into_drain_seconds": (at.At - begun.At).Seconds()}
	if left == 0 {
		return v.unknown("no pod was left on "+node+" that a drain has to move", begun, at)
	}
	return v.pass(fmt.Sprintf("%s into the drain, with %s left", history.Seconds(at.At-begun.At), history.Count(left, "pod")), begun, at)
}
