package verdict

import (
	"fmt"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// podsToLeave is the number of a node's pods that had to leave it.
const podsToLeave = "pods"

// Drained has the parameters of checkDrained.
type Drained struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
	// Within is a shorter limit than the notice's deadline.
	Within strict.Duration `yaml:"within,omitempty"`
	// Pods limits the check to this group of the workload.
	Pods string `yaml:"pods,omitempty"`
	// Terminating requires only that every pod begins to terminate: it may be that none can end on the
	// node. Not with within or pods.
	Terminating bool `yaml:"terminating,omitempty"`
}

// Validate checks the parameters.
func (c Drained) Validate(in *scenarios.Scope) {
	in.FleetNotice(c.Node, c.Notice)
	if longest := max(in.Scenario.Deadline.Fast, in.Scenario.Deadline.Full); c.Within > longest {
		in.Problem("within", "%s is more than the deadline (%s), which is the limit anyway", c.Within.D(), longest.D())
	}
	if c.Pods != "" {
		in.OneOf("pods", c.Pods, in.Scenario.Workload.Groups())
	}
	if c.Terminating && (c.Within > 0 || c.Pods != "") {
		in.Problem("terminating", "is not allowed with within or pods")
	}
}

// DecidedBy is how long it needs the recording.
func (c Drained) DecidedBy(t scenarios.Times) scenarios.Observation {
	until := t.Deadlines[c.Notice]
	if c.Within > 0 {
		until = min(until, t.Sent[c.Notice]+c.Within.D())
	}
	return scenarios.Happens(until).On(c.Node, t)
}

var checkDrained = by(Kind{
	ID: "drained", Title: "drained %s", Verdicts: []ID{"drained", "allTerminating"},
	Requires: "Every evictable pod that was on the node when the notice was put, or was bound to it before or within a second of the handler's mark, is gone before the deadline, or has finished by itself. DaemonSet pods, static pods, and pods that tolerate a cordon or the handler's taint are not evictable. With terminating, it is enough that every pod begins to terminate before the deadline.",
	Fix:      "evict every pod by the Eviction API at once and in parallel; retry those that a budget refuses; do not wait for one before the next; and give no request up before the API server answers: the eviction may have been counted, and then blocks the budget for two minutes",
	Fixes: map[ID]string{
		"allTerminating": "go on when the node is NotReady, and evict every pod by the Eviction API at once and in parallel: a replacement can start elsewhere once its pod is evicted",
	},
	Look: Look{Lane: LanePods, Text: "the lane Pods: which pod stayed, was it evicted at all, and had the node stopped being Ready by then? Then PodDisruptionBudgets and handler.log"},
}, judgeDrained)

func judgeDrained(j judge, v Verdict, c Drained) Verdict {
	if c.Node == scenarios.FleetNodes {
		return j.ofFleet(v, c.Notice, func(node string) Verdict {
			c.Node = node
			return judgeDrained(j, v, c)
		})
	}
	if c.Terminating {
		return allTerminating(j, v.as("allTerminating", "every pod of %s asked to terminate"), c)
	}
	return drained(j, v, c)
}

func drained(j judge, v Verdict, c Drained) Verdict {
	which, subject := "every evictable pod", c.Node
	if c.Pods != "" {
		which, subject = "every evictable "+c.Pods+" pod", c.Node+" of "+c.Pods
	}
	v = v.requires(fmt.Sprintf("%s gone before the deadline of notice %q", which, c.Notice), subject)
	if c.Within > 0 {
		v.Want += fmt.Sprintf(" and within %s", c.Within.D())
	}
	node, put, why := j.Deadlined(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why, known(put)...)
	}
	until := j.Over(put)
	if c.Within > 0 {
		since, _ := j.Receivable(put)
		until = min(until, since+c.Within.D())
	}

	evidence := []history.Event{put}
	var left []string
	var last time.Duration
	evicted, pods := 0, 0
	doubtful, doubt := 0, "" // of those left, those that may have been gone in time
	for _, p := range j.ToDrain(node, put) {
		if c.Pods != "" && !p.In(c.Pods) {
			continue
		}
		pods++
		if _, ok := p.First(j.Evicts); ok {
			evicted++
		}
		gone, ok := p.Left()
		if ok && gone.At <= until {
			last = max(last, gone.At-put.At)
			continue
		}
		left = append(left, p.Name())
		arrived, _ := p.Arrived(node)
		evidence = append(evidence, arrived)
		if ok {
			evidence = append(evidence, gone)
			if why := j.MayBeInTime(gone, until); why != "" {
				doubtful, doubt = doubtful+1, why
			}
		}
	}
	v.Numbers = map[string]float64{podsToLeave: float64(pods), "evicted": float64(evicted), "left": float64(len(left))}
	switch {
	case pods == 0:
		return v.unknown(fmt.Sprintf("no evictable pod was on %s, so an empty node proves nothing", node), put)
	case len(left) == 0:
		v.Numbers["drained_seconds"] = last.Seconds()
		return v.pass(fmt.Sprintf("%s gone from %s after %s", history.Count(pods, "pod"), node, history.Seconds(last)), put)
	case j.Unseen(until) != "":
		return v.unknown(fmt.Sprintf("%d of %s left on %s: %s", len(left), history.Count(pods, "pod"), node, j.Unseen(until)), capped(evidence)...)
	case doubtful == len(left):
		return v.unknown(fmt.Sprintf("%d of %s left on %s: %s", len(left), history.Count(pods, "pod"), node, doubt), capped(evidence)...)
	}
	return v.fail(fmt.Sprintf("%d of %s still on %s %s after the notice: %s", len(left), history.Count(pods, "pod"), node,
		history.Seconds(until-put.At), strings.Join(left, ", ")), capped(evidence)...)
}

func allTerminating(j judge, v Verdict, c Drained) Verdict {
	v = v.requires(fmt.Sprintf("every evictable pod terminating before the deadline of notice %q", c.Notice), c.Node)
	node, put, why := j.Deadlined(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why, known(put)...)
	}
	until := j.Over(put)
	pods := j.ToDrain(node, put)
	last := put
	var left []string
	doubt := ""
	for _, p := range pods {
		e, ok := p.FirstOf(history.PodTerminating, history.PodDeleted)
		switch {
		case p.FinishedBy(until):
		case ok && e.At <= until:
			if e.At > last.At {
				last = e
			}
		default:
			left = append(left, p.Name())
			if ok {
				doubt = j.MayBeInTime(e, until)
			}
		}
	}
	v.Numbers = map[string]float64{podsToLeave: float64(len(pods)), "left": float64(len(left))}
	switch {
	case len(pods) == 0:
		return v.unknown("no evictable pod was on "+node, put)
	case len(left) == 0:
		v.Numbers["asked_seconds"] = (last.At - put.At).Seconds()
		return v.pass(fmt.Sprintf("all %d began to terminate after %s", len(pods), history.Seconds(last.At-put.At)), put, last)
	case j.Unseen(until) != "":
		return v.unknown(fmt.Sprintf("%d of %d had not begun to terminate: %s", len(left), len(pods), j.Unseen(until)), put)
	case len(left) == 1 && doubt != "":
		return v.unknown(left[0]+" began to terminate late: "+doubt, put)
	}
	return v.fail(fmt.Sprintf("%d of %d never began to terminate: %s", len(left), len(pods), strings.Join(left, ", ")), put)
}
