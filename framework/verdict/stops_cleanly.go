package verdict

import (
	"fmt"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// StopsCleanly has the parameters of checkStopsCleanly.
type StopsCleanly struct {
	// Disturbance is a disturb step that terminates pods of the handler.
	Disturbance string `yaml:"disturbance"`
}

// Validate checks the parameters.
func (c StopsCleanly) Validate(in *scenarios.Scope) {
	in.OneOf("disturbance", c.Disturbance, in.Disturbances)
}

// DecidedBy is how long it needs the recording.
func (StopsCleanly) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.Caused + scenarios.StopTime)
}

// Needs is what it needs of a drill.
func (StopsCleanly) Needs() scenarios.Needs {
	return scenarios.Needs{Queue: "it judges which messages are received after SIGTERM"}
}

var checkStopsCleanly = by(Kind{
	ID: "stopsCleanly", Title: "handler stops cleanly at %s",
	Requires: "A pod of the handler that is asked to terminate soon ends its poll of the queue, receives no more messages, and ends by itself within its grace period.",
	Fix:      "at SIGTERM, end the poll of the queue at once, settle what was received, and exit before terminationGracePeriodSeconds is over; what is left of a drain must be found by the next pod",
	Look:     Look{Lane: LaneHandler, Text: "the lane Handler: what was received after the pod began to terminate, and how long it went on; then handler.log"},
}, stopsCleanly)

func stopsCleanly(j judge, v Verdict, c StopsCleanly) Verdict {
	v = v.requires(fmt.Sprintf("no message received later than %s after the pod began to terminate, and ended within its grace period", signalled), c.Disturbance)
	pods, why := story.Disturbed(j.Story, c.Disturbance)
	if why != "" {
		return v.unknown(why)
	}
	var evidence []history.Event
	elsewhere := false
	for _, p := range pods {
		terminating, ok := p.Terminating()
		if !ok {
			return v.unknown(p.Name() + " was never asked to terminate")
		}
		grace := terminating.Numbers.Duration(history.Grace)
		for _, e := range j.AllOf(history.SQSReceived) {
			switch {
			case e.At <= terminating.At+signalled:
			case e.IP == "":
				return v.unknown("the history does not show which pod received a message", terminating, e)
			case p.HasIP(e.IP):
				return v.fail(fmt.Sprintf("%s received a message %s after it began to terminate", p.Name(), history.Seconds(e.At-terminating.At)), terminating, e)
			case j.PodAt(e.IP) == nil:
				return v.unknown("no pod is known that received a message, from "+e.IP, terminating, e)
			default:
				elsewhere = true
			}
		}
		if poll, ok := story.Polls(j.Story, p, terminating.At+pollEnds); ok {
			return v.fail(fmt.Sprintf("%s still polled the queue %s after it began to terminate", p.Name(), history.Seconds(poll.At-terminating.At)), terminating, poll)
		}
		ended, ok := p.Stopped()
		limit := terminating.At + grace + story.SeenLate
		switch {
		case ok && (ended.At > limit || ended.Numbers[history.ExitCode] == killedCode):
			return v.fail(fmt.Sprintf("%s ended %s after it began to terminate, by SIGKILL or too late for its grace period of %s", p.Name(),
				history.Seconds(ended.At-terminating.At), grace), terminating, ended)
		case !ok && j.Unseen(limit) != "":
			return v.unknown(p.Name()+" has not ended: "+j.Unseen(limit), terminating)
		case !ok:
			return v.fail(fmt.Sprintf("%s has not ended within its grace period of %s", p.Name(), grace), terminating)
		}
		evidence = append(evidence, terminating, ended)
	}
	if !elsewhere {
		return v.unknown("no message came after the handler was asked to terminate, so that it received none proves nothing", capped(evidence)...)
	}
	return v.pass(fmt.Sprintf("%s received nothing more and ended in time", history.Count(len(pods), "pod")), capped(evidence)...)
}

// signalled is how long after a pod began to terminate its process has SIGTERM: the kubelet
// sees the deletion first. A message that is on its way may still arrive.
const signalled = 2 * time.Second

// pollEnds is how long after that a poll of the queue may still be open: the proxy sees that
// its client has left when it looks for messages the next time.
const pollEnds = 2 * signalled

// killedCode is the exit code of a container that SIGKILL ended.
const killedCode = 137
