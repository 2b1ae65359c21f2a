package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

var checkDrained = check{
	Kind: Kind{
		ID: "drained", Title: "drained %s",
		Requires: "Every evictable pod that was on the node when the notice was put, or was bound to it before or within a second of the handler's mark, is gone before the deadline, or has finished by itself.",
		Fix:      "evict every pod by the Eviction API at once and in parallel; retry those that a budget refuses; do not wait for one before the next; and give no request up before the API server answers: the eviction may have been counted, and then blocks the budget for two minutes",
		Look:     Look{Lane: LanePods, Text: "the lane Pods: which pod stayed, and was it evicted at all? Then PodDisruptionBudgets and handler.log"},
	},
	judge: by(drained),
}

func drained(j judge, v Verdict, c scenarios.Drained) Verdict {
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

var checkDaemonPodsLeft = check{
	Kind: Kind{
		ID: "daemonPodsLeft", Title: "daemon pods left on %s",
		Requires: "The DaemonSet pods of the node are neither evicted nor deleted while the node is there.",
		Fix:      "leave pods that a DaemonSet owns: they come back on the same node, and the others need them until the end",
		Look:     Look{Lane: LanePods, Text: "the lane Pods: who ended a DaemonSet's pod, and when? Then handler.log"},
	},
	judge: by(daemonPodsLeft),
}

func daemonPodsLeft(j judge, v Verdict, c scenarios.DaemonPodsLeft) Verdict {
	v = v.wants("daemon pods neither evicted nor deleted while the node is there", c.Node)
	return j.left(v, c.Node, "daemon", func(p story.Pod) bool { return history.OwnedBy(p.Events, "DaemonSet") })
}

var checkPodsLeft = check{
	Kind: Kind{
		ID: "podsLeft", Title: "%s pods left on %s",
		Requires: "These pods of the node are neither evicted nor deleted before its instance goes.",
		Fix:      "leave pods that a drain must leave: mirror pods, DaemonSets' pods, and those that tolerate a cordon",
		Look:     Look{Lane: LanePods, Text: "the lane Pods: who ended a pod that a drain must leave? Then handler.log"},
	},
	judge: by(podsLeft),
}

func podsLeft(j judge, v Verdict, c scenarios.PodsLeft) Verdict {
	v = v.wants(c.Pods+" pods neither evicted nor deleted while the node is there", c.Pods, c.Node)
	return j.left(v, c.Node, c.Pods, func(p story.Pod) bool { return p.In(c.Pods) })
}

// left requires that the chosen pods of the node are left alone.
func (j judge) left(v Verdict, name, what string, chosen func(story.Pod) bool) Verdict {
	node, why := j.Node(name)
	if why != "" {
		return v.unknown(why)
	}
	until := j.Gone(node)
	if j.History.Meta.Handler.DeletesNode {
		// Garbage collection takes the pods of a Node object that is gone.
		if e, ok := j.First(func(e history.Event) bool { return e.Kind == history.NodeDeleted && e.Node == node }); ok {
			until = min(until, e.At)
		}
	}
	var taken []history.Event
	pods := 0
	for _, p := range j.Pods {
		arrived, ok := p.Arrived(node)
		if !ok || arrived.At >= until || !chosen(p) {
			continue
		}
		pods++
		if e, ok := p.First(func(e history.Event) bool {
			return e.At < until && slices.Contains([]history.Kind{history.PodEvicted, history.PodTerminating, history.PodDeleted}, e.Kind)
		}); ok {
			taken = append(taken, e)
		}
	}
	v.Numbers = map[string]float64{strings.ReplaceAll(what, "-", "_") + "_pods": float64(pods), "taken": float64(len(taken))}
	switch {
	case pods == 0:
		return v.unknown(fmt.Sprintf("no %s pod was on %s", what, node))
	case len(taken) > 0:
		return v.fail(fmt.Sprintf("%d of %d %s pods taken: %s", len(taken), pods, what, describe(taken)), capped(taken)...)
	case j.Unseen(until) != "":
		return v.unknown("none taken: " + j.Unseen(until))
	}
	return v.pass(fmt.Sprintf("%d %s pods left alone", pods, what))
}

var checkNoEviction = check{
	Kind: Kind{
		ID: "noEviction", Title: "no eviction",
		Requires: "No pod is evicted anywhere, the handler deletes none, and none of the workload is deleted.",
		Fix:      "nothing may evict in this drill: look whose event or audit record names the eviction",
		Look:     Look{Lane: LanePods, Text: "the lane Pods: who was evicted? Then handler.log"},
	},
	judge: by(noEviction),
}

func noEviction(j judge, v Verdict, _ scenarios.NoEviction) Verdict {
	v = v.wants("no pod evicted anywhere, none deleted by the handler, and none of the workload deleted")
	taken := j.All(func(e history.Event) bool { return j.Takes(e) == story.Blamed })
	unclear := j.All(func(e history.Event) bool { return j.Takes(e) == story.Unclear })
	switch {
	case len(taken) > 0:
		return v.fail(describe(taken), capped(taken)...)
	case len(unclear) > 0:
		return v.unknown(unclearWho(unclear), capped(unclear)...)
	case !slices.ContainsFunc(j.Events, func(e history.Event) bool { return e.Kind == history.PodPresent }):
		return v.unknown("no pod was seen at all")
	case j.Unseen(j.End) != "":
		return v.unknown("none evicted: " + j.Unseen(j.End))
	}
	return v.pass("none evicted")
}
