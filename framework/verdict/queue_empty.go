package verdict

import (
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// QueueEmpty has the parameters of checkQueueEmpty.
type QueueEmpty struct{}

// Validate checks the parameters.
func (QueueEmpty) Validate(*scenarios.Scope) {}

// DecidedBy is how long it needs the recording.
func (QueueEmpty) DecidedBy(scenarios.Times) scenarios.Observation { return scenarios.AtEnd() }

// Needs is what it needs of a drill.
func (QueueEmpty) Needs() scenarios.Needs {
	return scenarios.Needs{Messages: true}
}

var checkQueueEmpty = check{
	Kind: Kind{
		ID: "queueEmpty", Title: "queue empty",
		Requires: "No message is in the queue at the end, neither visible nor handed out.",
		Fix:      "delete every message that the handler is done with, also those that it does nothing about, or they come again until the queue's retention ends",
		Look:     Look{Lane: LaneHandler, Text: "the lane Handler: which message was received and never deleted? Then handler.log"},
	},
	judge: by(queueEmpty),
}

func queueEmpty(j judge, v Verdict, _ QueueEmpty) Verdict {
	v = v.requires("no message in the queue at the end")
	for _, e := range slices.Backward(j.History.Events) {
		if e.Kind != history.QueueDepth {
			continue
		}
		visible, invisible := e.Numbers[history.Visible], e.Numbers[history.Invisible]
		v.Numbers = map[string]float64{"visible": visible, "invisible": invisible}
		if left := visible + invisible; left > 0 && left <= float64(j.kept()) {
			return v.pass(fmt.Sprintf("%.0f kept: %s", left, j.keeps()), e)
		}
		if visible+invisible != 0 {
			if cut, ok := j.FirstOf(history.RunError); ok {
				return v.unknown(fmt.Sprintf("%.0f visible and %.0f handed out when the drill was cut short", visible, invisible), e, cut)
			}
			return v.fail(fmt.Sprintf("%.0f visible and %.0f handed out", visible, invisible), e)
		}
		return v.pass("none", e)
	}
	return v.unknown("the history does not show how many messages were left")
}
