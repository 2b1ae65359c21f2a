package verdict

import (
	"fmt"

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

var checkQueueEmpty = by(Kind{
	ID: "queueEmpty", Title: "queue empty",
	Requires: "No message is in the queue at the end, neither visible nor handed out.",
	Fix:      "delete every message that the handler is done with, also those that it does nothing about, or they come again until the queue's retention ends",
	Look:     Look{Lane: LaneHandler, Text: "the lane Handler: which message was received and never deleted? Then handler.log"},
}, queueEmpty)

func queueEmpty(j judge, v Verdict, _ QueueEmpty) Verdict {
	v = v.requires("no message in the queue at the end")
	e, ok := j.Depth()
	if !ok {
		return v.unknown("the history does not show how many messages were left")
	}
	visible, invisible := e.Numbers[history.Visible], e.Numbers[history.Invisible]
	left := visible + invisible
	v.Numbers = map[string]float64{"visible": visible, "invisible": invisible}
	cut, broken := j.FirstOf(history.RunError)
	switch {
	case left == 0:
		return v.pass("none", e)
	case left > 0 && left <= float64(j.KeptMessages()):
		return v.pass(fmt.Sprintf("%.0f kept: %s", left, j.KeepsMessages()), e)
	case broken:
		return v.unknown(fmt.Sprintf("%.0f visible and %.0f handed out when the drill was cut short", visible, invisible), e, cut)
	}
	return v.fail(fmt.Sprintf("%.0f visible and %.0f handed out", visible, invisible), e)
}
