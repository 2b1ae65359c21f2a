package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// pod is what the history tells of one pod, from all events with its UID.
type pod struct {
	events []history.Event // in order of time, never empty
}

func podsOf(events []history.Event) []pod {
	var pods []pod
	for _, group := range history.Pods(events) {
		pods = append(pods, pod{group})
	}
	return pods
}

func (p pod) first(ok func(history.Event) bool) (history.Event, bool) {
	if i := slices.IndexFunc(p.events, ok); i >= 0 {
		return p.events[i], true
	}
	return history.Event{}, false
}

func (p pod) name() string { return p.events[0].Pod }

func (p pod) deleted() (history.Event, bool) {
	return p.first(func(e history.Event) bool { return e.Kind == history.PodDeleted })
}

// arrived is the first event that shows the pod on the node.
func (p pod) arrived(node string) (history.Event, bool) {
	return p.first(func(e history.Event) bool { return e.Node == node && e.Kind != history.PodDeleted })
}

// on is true where the pod was on the node at that time.
func (p pod) on(node string, at time.Duration) bool {
	arrived, ok := p.arrived(node)
	if !ok || arrived.At > at {
		return false
	}
	deleted, ok := p.deleted()
	return !ok || deleted.At > at
}

func (p pod) evictable() bool { return history.Evictable(p.events) }

// number is one that the history gave the pod when it first told of it.
func (p pod) number(name history.Number) float64 { return p.events[0].Numbers[name] }

// in is true for a pod that goes by this name in the scenario's workload.
func (p pod) in(group string) bool { return p.events[0].Key == group }

// criticalPriority is where the system's own priority classes begin.
const criticalPriority = 2_000_000_000

func (p pod) critical() bool { return p.number(history.Priority) >= criticalPriority }

// told is when the pod was told to end.
func (p pod) told() (history.Event, bool) {
	return p.first(func(e history.Event) bool { return e.Kind == history.PodTerminating })
}

// stopped is when its containers had ended, or where that was not seen, when the
// pod was gone.
func (p pod) stopped() (history.Event, bool) {
	return p.first(func(e history.Event) bool { return e.Kind == history.PodExited || e.Kind == history.PodDeleted })
}

func (d drill) drained(c scenarios.Drained) Verdict {
	v := Verdict{Check: "drained " + c.Node, Want: fmt.Sprintf("every evictable pod gone before the deadline of notice %q", c.Notice)}
	if c.Pods != "" {
		v.Check += " of " + c.Pods
		v.Want = strings.Replace(v.Want, "every evictable", "every evictable "+c.Pods, 1)
	}
	if c.Within > 0 {
		v.Want += fmt.Sprintf(" and within %s", c.Within.D())
	}
	node, put, why := d.deadlined(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why, known(put)...)
	}
	until := min(*put.Until, d.gone(node))
	if c.Within > 0 {
		until = min(until, put.At+c.Within.D())
	}

	evidence := []history.Event{put}
	var left []string
	var last time.Duration
	evicted, pods := 0, 0
	for _, p := range d.toDrain(node, put) {
		if c.Pods != "" && !p.in(c.Pods) {
			continue
		}
		pods++
		if _, ok := p.first(d.evicts); ok {
			evicted++
		}
		deleted, ok := p.deleted()
		if ok && deleted.At <= until {
			last = max(last, deleted.At-put.At)
			continue
		}
		left = append(left, p.name())
		arrived, _ := p.arrived(node)
		if evidence = append(evidence, arrived); ok {
			evidence = append(evidence, deleted)
		}
	}
	v.Numbers = map[string]float64{"pods": float64(pods), "evicted": float64(evicted), "left": float64(len(left))}
	switch {
	case pods == 0:
		return v.unknown(fmt.Sprintf("no evictable pod was on %s, so an empty node shows nothing", node), put)
	case len(left) == 0:
		v.Numbers["drained_seconds"] = last.Seconds()
		return v.pass(fmt.Sprintf("%d pods gone from %s after %s", pods, node, history.Seconds(last)), put)
	case d.unseen(until) != "":
		return v.unknown(fmt.Sprintf("%d of %d pods left on %s: %s", len(left), pods, node, d.unseen(until)), capped(evidence)...)
	}
	return v.fail(fmt.Sprintf("%d of %d pods still on %s %s after the notice: %s", len(left), pods, node,
		history.Seconds(until-put.At), strings.Join(left, ", ")), capped(evidence)...)
}

func (d drill) daemonPodsLeft(c scenarios.DaemonPodsLeft) Verdict {
	v := Verdict{Check: "daemon pods left on " + c.Node, Want: "daemon pods neither evicted nor deleted while the node is there"}
	return d.left(v, c.Node, "daemon", func(p pod) bool { return history.OwnedBy(p.events, "DaemonSet") })
}

func (d drill) podsLeft(c scenarios.PodsLeft) Verdict {
	v := Verdict{
		Check: fmt.Sprintf("%s pods left on %s", c.Pods, c.Node),
		Want:  c.Pods + " pods neither evicted nor deleted while the node is there",
	}
	return d.left(v, c.Node, c.Pods, func(p pod) bool { return p.in(c.Pods) })
}

// left wants the chosen pods of the node left alone.
func (d drill) left(v Verdict, name, what string, chosen func(pod) bool) Verdict {
	node, why := d.node(name)
	if why != "" {
		return v.unknown(why)
	}
	until := d.gone(node)
	if d.history.Meta.Handler.DeletesNode {
		// Garbage collection takes the pods of a Node object that is gone.
		if e, ok := d.first(func(e history.Event) bool { return e.Kind == history.NodeDeleted && e.Node == node }); ok {
			until = min(until, e.At)
		}
	}
	var taken []history.Event
	pods := 0
	for _, p := range d.pods {
		arrived, ok := p.arrived(node)
		if !ok || arrived.At >= until || !chosen(p) {
			continue
		}
		pods++
		if e, ok := p.first(func(e history.Event) bool {
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
	case d.unseen(until) != "":
		return v.unknown("none taken: " + d.unseen(until))
	}
	return v.pass(fmt.Sprintf("%d %s pods left alone", pods, what))
}

func (d drill) noEviction() Verdict {
	v := Verdict{Check: "no eviction", Want: "no pod evicted anywhere, and none of the workload deleted"}
	taken := d.all(d.takes)
	switch {
	case len(taken) > 0:
		return v.fail(describe(taken), capped(taken)...)
	case !slices.ContainsFunc(d.events, func(e history.Event) bool { return e.Kind == history.PodPresent }):
		return v.unknown("no pod was seen at all")
	case d.unseen(d.end) != "":
		return v.unknown("none evicted: " + d.unseen(d.end))
	}
	return v.pass("none evicted")
}
