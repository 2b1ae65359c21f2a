package verdict

import (
	"fmt"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Drained has the parameters of checkDrained.
type Drained struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
	// Within is a shorter limit than the notice's deadline.
	Within strict.Duration `yaml:"within,omitempty"`
	// Pods limits the check to this group of the workload.
	Pods string `yaml:"pods,omitempty"`
}

// Validate checks the parameters.
func (c Drained) Validate(in *scenarios.Scope) {
	in.NoticeFor(c.Node, c.Notice)
	if longest := max(in.Deadline().Fast, in.Deadline().Full); c.Within > longest {
		in.Problem("within", "%s is more than the deadline (%s), which is the limit anyway", c.Within.D(), longest.D())
	}
	if c.Pods != "" {
		in.OneOf("pods", c.Pods, in.Pods())
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

var checkDrained = check{
	Kind: Kind{
		ID: "drained", Title: "drained %s",
		Requires: "Every evictable pod that was on the node when the notice was put, or was bound to it before or within a second of the handler's mark, is gone before the deadline, or has finished by itself. DaemonSet pods, static pods, and pods that tolerate a cordon or the handler's taint are not evictable.",
		Fix:      "evict every pod by the Eviction API at once and in parallel; retry those that a budget refuses; do not wait for one before the next; and give no request up before the API server answers: the eviction may have been counted, and then blocks the budget for two minutes",
		Look:     Look{Lane: LanePods, Text: "the lane Pods: which pod stayed, and was it evicted at all? Then PodDisruptionBudgets and handler.log"},
	},
	judge: by(drained),
}

func drained(j judge, v Verdict, c Drained) Verdict {
	which, subject := "every evictable pod", c.Node
	if c.Pods != "" {
		which, subject = "every evictable "+c.Pods+" pod", c.Node+" of "+c.Pods
	}
	v = v.wants(fmt.Sprintf("%s gone before the deadline of notice %q", which, c.Notice), subject)
	if c.Within > 0 {
		v.Want += fmt.Sprintf(" and within %s", c.Within.D())
	}
	node, put, why := j.Deadlined(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why, known(put)...)
	}
	until := min(*put.Until, j.Gone(node))
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
			if why := j.mayBeInTime(gone, until); why != "" {
				doubtful, doubt = doubtful+1, why
			}
		}
	}
	v.Numbers = map[string]float64{"pods": float64(pods), "evicted": float64(evicted), "left": float64(len(left))}
	switch {
	case pods == 0:
		return v.unknown(fmt.Sprintf("no evictable pod was on %s, so an empty node proves nothing", node), put)
	case len(left) == 0:
		v.Numbers["drained_seconds"] = last.Seconds()
		return v.pass(fmt.Sprintf("%d pods gone from %s after %s", pods, node, history.Seconds(last)), put)
	case j.Unseen(until) != "":
		return v.unknown(fmt.Sprintf("%d of %d pods left on %s: %s", len(left), pods, node, j.Unseen(until)), capped(evidence)...)
	case doubtful == len(left):
		return v.unknown(fmt.Sprintf("%d of %d pods left on %s: %s", len(left), pods, node, doubt), capped(evidence)...)
	}
	return v.fail(fmt.Sprintf("%d of %d pods still on %s %s after the notice: %s", len(left), pods, node,
		history.Seconds(until-put.At), strings.Join(left, ", ")), capped(evidence)...)
}
