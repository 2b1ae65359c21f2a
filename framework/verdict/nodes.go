package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

func (d drill) marked(c scenarios.Marked) Verdict {
	handler := d.history.Meta.Handler
	v := Verdict{
		Check: "marked " + c.Node,
		Want:  fmt.Sprintf("%s within %s of notice %q", claimedMarks(handler), c.Within.D(), c.Notice) + wantAfter(c.After),
	}
	if !handler.Unschedulable && handler.Taint == "" {
		return v.unknown(fmt.Sprintf("the description of handler %q claims no mark", handler.Name))
	}
	node, put, why := d.noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	limit, why := d.limitOf(put, c.After)
	if why != "" {
		return v.unknown(why, put)
	}
	gone := d.gone(node)
	changes := d.all(func(e history.Event) bool { return e.Node == node && e.At < gone && markChange(e, handler) })
	before := slices.IndexFunc(changes, func(e history.Event) bool { return e.At >= put.At })
	if before < 0 {
		before = len(changes)
	}
	marks, mark := marksAfter(changes[:before])
	if len(marks) > 0 {
		if _, earlier := d.first(func(e history.Event) bool {
			return e.Kind == history.NoticePut && e.Node == node && e.At <= mark.At
		}); !earlier {
			return v.unknown(fmt.Sprintf("%s was marked before any notice named it, so its mark shows nothing", node), mark, put)
		}
	} else {
		i := slices.IndexFunc(changes, func(e history.Event) bool { return e.At >= put.At && isMark(e) })
		if i < 0 {
			return d.unmarked(v, limit, node, c.Within.D())
		}
		mark = changes[i]
	}
	after := max(0, mark.At-limit.from)
	v.Numbers = map[string]float64{"marked_seconds": after.Seconds()}
	if after > c.Within.D() {
		return v.fail(fmt.Sprintf("%s marked after %s", node, history.Seconds(after)), append(limit.evidence, mark)...)
	}
	if marks, _ := marksAfter(changes); len(marks) == 0 {
		off := changes[len(changes)-1]
		return v.fail(fmt.Sprintf("%s marked after %s, and the mark taken off again at +%s", node, history.Seconds(after), history.Seconds(off.At)), put, mark, off)
	}
	return v.pass(fmt.Sprintf("%s marked after %s", node, history.Seconds(after)), append(limit.evidence, mark)...)
}

// unmarked tells a mark that did not come from one that was not waited for.
func (d drill) unmarked(v Verdict, l limit, node string, within time.Duration) Verdict {
	until := min(l.from+within, d.gone(node))
	if why := d.unseen(until); why != "" {
		return v.unknown(node+" not marked: "+why, l.evidence...)
	}
	if taken, ok := d.reclaimed(node); ok {
		return v.fail(node+" not marked before its instance was taken", append(l.evidence, taken)...)
	}
	return v.fail(node+" not marked", l.evidence...)
}

func claimedMarks(h history.Handler) string {
	var marks []string
	if h.Unschedulable {
		marks = append(marks, "cordoned")
	}
	if h.Taint != "" {
		marks = append(marks, "tainted "+h.Taint)
	}
	if len(marks) == 0 {
		return "marked"
	}
	return strings.Join(marks, " or ")
}

// markChange is true for the events that put on or take off a mark which the
// handler claims as its own.
func markChange(e history.Event, h history.Handler) bool {
	switch e.Kind {
	case history.NodeCordoned, history.NodeUncordoned:
		return h.Unschedulable
	case history.NodeTainted, history.NodeUntainted:
		return h.Taint != "" && e.Key == h.Taint
	}
	return false
}

func isMark(e history.Event) bool {
	return e.Kind == history.NodeCordoned || e.Kind == history.NodeTainted
}

// marksAfter is the set of marks that is on a node after the changes, and the
// change that marked it.
func marksAfter(changes []history.Event) (marks map[string]bool, mark history.Event) {
	marks = map[string]bool{}
	for _, e := range changes {
		name := "taint"
		if e.Kind == history.NodeCordoned || e.Kind == history.NodeUncordoned {
			name = "cordon"
		}
		if !isMark(e) {
			delete(marks, name)
			continue
		}
		if len(marks) == 0 {
			mark = e
		}
		marks[name] = true
	}
	return marks, mark
}

func (d drill) untouched(c scenarios.Untouched) Verdict {
	v := Verdict{Check: "untouched " + c.Node, Want: "neither cordoned, tainted nor deleted, and no pod evicted or deleted"}
	node, why := d.node(c.Node)
	if why != "" {
		return v.unknown(why)
	}
	if touches := d.touches(node); len(touches) > 0 {
		return v.fail(node+": "+describe(touches), capped(touches)...)
	}
	if why := d.unseen(min(d.end, d.gone(node))); why != "" {
		return v.unknown(node + " not touched: " + why)
	}
	return v.pass(node + " not touched")
}

func (d drill) nodeEvent(c scenarios.NodeEvent) Verdict {
	v := Verdict{
		Check: "event on " + c.Node,
		Want:  fmt.Sprintf("a Kubernetes event on the node within %s of notice %q", c.Within.D(), c.Notice),
	}
	node, put, why := d.noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	until := min(put.At+c.Within.D(), d.gone(node))
	e, ok := d.first(func(e history.Event) bool {
		return e.Kind == history.ClusterEvent && e.Key == "Node" && e.Node == node && e.At >= put.At && !KubernetesComponent(e.Owner)
	})
	switch {
	case ok && e.At <= until:
		after := e.At - put.At
		v.Numbers = map[string]float64{"event_seconds": after.Seconds()}
		return v.pass(fmt.Sprintf("%s by %s after %s", e.Reason, e.Owner, history.Seconds(after)), put, e)
	case d.unseen(until) != "":
		return v.unknown("no event: "+d.unseen(until), put)
	case ok:
		return v.fail(fmt.Sprintf("%s by %s, but only after %s", e.Reason, e.Owner, history.Seconds(e.At-put.At)), put, e)
	}
	return v.fail("no event on "+node+" but those of Kubernetes itself", put)
}

// KubernetesComponent is true for the reporters of events that appear on nodes
// whether or not a handler acts. An event without a reporter proves nothing
// either.
func KubernetesComponent(reporter string) bool {
	return slices.Contains([]string{
		"", "kubelet", "kube-proxy", "default-scheduler", "node-controller", "cloud-node-controller",
		"cloud-node-lifecycle-controller", "cidrAllocator", "attachdetach-controller", "taint-eviction-controller",
	}, reporter)
}
