package verdict

import (
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// signalled is how long after a pod began to terminate its process has SIGTERM: the kubelet
// sees the deletion first. A message that is on its way may still arrive.
const signalled = 2 * time.Second

// pollEnds is how long after that a poll of the queue may still be open: the proxy sees that
// its client has left when it looks for messages the next time.
const pollEnds = 2 * signalled

// killedCode is the exit code of a container that SIGKILL ended.
const killedCode = 137

var checkStopsCleanly = check{
	Kind: Kind{
		ID: "stopsCleanly", Title: "handler stops cleanly at %s",
		Requires: "A pod of the handler that is asked to terminate soon ends its poll of the queue, receives no more messages, and ends by itself within its grace period.",
		Fix:      "at SIGTERM, end the poll of the queue at once, settle what was received, and exit before terminationGracePeriodSeconds is over; what is left of a drain must be found by the next pod",
		Look:     Look{Lane: LaneHandler, Text: "the lane Handler: what was received after the pod began to terminate, and how long it went on; then handler.log"},
	},
	judge: by(stopsCleanly),
}

func stopsCleanly(j judge, v Verdict, c scenarios.StopsCleanly) Verdict {
	v = v.wants(fmt.Sprintf("no message received later than %s after the pod began to terminate, and ended within its grace period", signalled), c.Disturbance)
	pods, why := j.disturbed(c.Disturbance)
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
		if poll, ok := j.polls(p, terminating.At+pollEnds); ok {
			return v.fail(fmt.Sprintf("%s still polled the queue %s after it began to terminate", p.Name(), history.Seconds(poll.At-terminating.At)), terminating, poll)
		}
		ended, ok := p.Stopped()
		limit := terminating.At + grace + seenLate
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
	return v.pass(fmt.Sprintf("%d pods received nothing more and ended in time", len(pods)), capped(evidence)...)
}

// polls finds a poll of the queue that a pod began, or had not ended, after that time.
func (j judge) polls(p story.Pod, after time.Duration) (history.Event, bool) {
	return j.First(func(e history.Event) bool {
		return e.Kind == history.SQSCall && e.Owner != history.ProxyOwner && e.Action == "ReceiveMessage" && e.At > after && p.HasIP(e.IP)
	})
}

// disturbed are the pods of the handler that a disturbance was done to.
func (j judge) disturbed(disturbance string) (pods []story.Pod, why string) {
	done := j.All(func(e history.Event) bool { return e.Kind == history.HandlerDisturbed && e.Step() == disturbance })
	if len(done) == 0 {
		return nil, fmt.Sprintf("disturbance %q never began", disturbance)
	}
	for _, e := range done {
		i := slices.IndexFunc(j.Pods, func(p story.Pod) bool { return p.UID() == e.UID })
		if i < 0 {
			return nil, e.Pod + " was not seen"
		}
		pods = append(pods, j.Pods[i])
	}
	return pods, ""
}

var checkTakenOver = check{
	Kind: Kind{
		ID: "takenOver", Title: "drain of %s taken over after %s",
		Requires: "After the replica of the handler that drained the node has ended for good, another one evicts the pods that are left, within a time.",
		Fix:      "record on the node that a drain is under way and who works on it, and let every replica look for drains that nobody works on, not only when it starts",
		Look:     Look{Lane: LanePods, Text: "the lanes Handler and Pods: which pods were left when the replica ended, and who evicted them? Then handler.log"},
	},
	judge: by(takenOver),
}

func takenOver(j judge, v Verdict, c scenarios.TakenOver) Verdict {
	v = v.wants(fmt.Sprintf("another replica evicting within %s of the end of the one that drained", c.Within.D()), c.Node, c.Disturbance)
	node, why := j.Node(c.Node)
	if why != "" {
		return v.unknown(why)
	}
	pods, why := j.disturbed(c.Disturbance)
	if why != "" {
		return v.unknown(why)
	}
	var names []string
	ended := history.Event{}
	for _, p := range pods {
		e, ok := p.Stopped()
		if !ok {
			return v.unknown(p.Name() + " has not ended")
		}
		if e.At > ended.At {
			ended = e
		}
		names = append(names, p.Name())
	}
	var left []story.Pod
	for _, p := range j.ToLeave(node, ended.At) {
		if terminating, ok := p.Terminating(); !ok || terminating.At > ended.At {
			left = append(left, p)
		}
	}
	until := min(ended.At+c.Within.D(), j.Gone(node))
	allLeave := !slices.ContainsFunc(left, func(p story.Pod) bool {
		_, ok := p.Terminating()
		return !ok
	})
	v.Numbers = map[string]float64{"left": float64(len(left))}
	switch {
	case len(left) == 0:
		return v.unknown("nothing was left on "+node+" to take over", ended)
	case !j.Audited():
		v.awaitsAudit = allLeave
		return v.unknown("the API server's audit log was not read, so who evicted is unknown", ended)
	}
	for _, e := range j.AllOf(history.HandlerTook) {
		taken := slices.ContainsFunc(left, func(p story.Pod) bool { return p.Name() == e.Pod })
		if !taken || e.Said == nil || *e.Said <= ended.At || *e.Said > until {
			continue
		}
		if e.HandlerPod() == "" {
			return v.unknown("the audit log does not show which replica evicted "+e.Pod, ended, e)
		}
		v.Numbers["taken_over_seconds"] = (*e.Said - ended.At).Seconds()
		return v.pass(fmt.Sprintf("%s evicted %s %s after %s had ended", e.HandlerPod(), e.Pod, history.Seconds(*e.Said-ended.At), names[0]), ended, e)
	}
	if why := j.Unseen(until); why != "" && !allLeave {
		return v.unknown("not taken over: "+why, ended)
	}
	return v.fail(fmt.Sprintf("nobody evicted the %d pods that were left within %s after %s had ended", len(left), history.Seconds(until-ended.At), names[0]), ended)
}
