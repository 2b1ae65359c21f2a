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

var checkMarked = check{
	Kind: Kind{
		ID: "marked", Title: "marked %s",
		Requires: "A node that a notice names carries one of the marks that the handler's description names, within a time of the notice, and keeps it.",
		Fix:      "cordon or taint the node as soon as the notice is read, before the first eviction; if the handler does, name its mark under marks in its description",
		Look:     Look{Lane: LaneNode, Text: "the lanes Handler and Node: was the message received, and what followed? Then handler.log"},
	},
	judge: by(judge.marked),
}

func (j judge) marked(v Verdict, c scenarios.Marked) Verdict {
	handler := j.History.Meta.Handler
	v = v.wants(fmt.Sprintf("%s within %s of notice %q", claimedMarks(handler), c.Within.D(), c.Notice)+wantAfter(c.After), c.Node)
	if !handler.Unschedulable && handler.Taint == "" {
		return v.unknown(fmt.Sprintf("the description of handler %q claims no mark", handler.Name))
	}
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	limit, why := j.limitOf(put, c.After)
	if why != "" {
		return v.unknown(why, put)
	}
	gone := j.Gone(node)
	changes := j.All(func(e history.Event) bool { return e.Node == node && e.At < gone && j.MarkChange(e) })
	before := slices.IndexFunc(changes, func(e history.Event) bool { return e.At >= put.At })
	if before < 0 {
		before = len(changes)
	}
	marks, mark := j.MarksAfter(changes[:before])
	if len(marks) > 0 {
		if _, earlier := j.First(func(e history.Event) bool {
			return e.Kind == history.NoticePut && e.Node == node && e.At <= mark.At
		}); !earlier {
			return v.unknown(fmt.Sprintf("%s was marked before any notice named it, so its mark proves nothing", node), mark, put)
		}
	} else {
		i := slices.IndexFunc(changes, func(e history.Event) bool { return e.At >= put.At && j.Marking(e) })
		if i < 0 {
			return j.unmarked(v, limit, node, c.Within.D())
		}
		mark = changes[i]
	}
	after := max(0, mark.At-limit.from)
	v.Numbers = map[string]float64{"marked_seconds": after.Seconds()}
	if after > c.Within.D() {
		return v.fail(fmt.Sprintf("%s marked after %s", node, history.Seconds(after)), append(limit.evidence, mark)...)
	}
	if marks, _ := j.MarksAfter(changes); len(marks) == 0 {
		off := changes[len(changes)-1]
		return v.fail(fmt.Sprintf("%s marked after %s, and the mark taken off again at +%s", node, history.Seconds(after), history.Seconds(off.At)), put, mark, off)
	}
	return v.pass(fmt.Sprintf("%s marked after %s", node, history.Seconds(after)), append(limit.evidence, mark)...)
}

// unmarked distinguishes a mark that did not come from one that could not be seen.
func (j judge) unmarked(v Verdict, l limit, node string, within time.Duration) Verdict {
	until := min(l.from+within, j.Gone(node))
	if why := j.Unseen(until); why != "" {
		return v.unknown(node+" not marked: "+why, l.evidence...)
	}
	if taken, ok := j.Reclaimed(node); ok {
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

var checkUntouched = check{
	Kind: Kind{
		ID: "untouched", Title: "untouched %s",
		Requires: "The node is neither cordoned, tainted nor deleted, and no pod of it is evicted or deleted.",
		Fix:      "find the node by the instance id in its providerID, and touch no other; a notice about a foreign instance is only deleted",
		Look:     Look{Lane: LaneNode, Text: "the lane Node: what was done, and after which notice? Then handler.log"},
	},
	judge: by(judge.untouched),
}

func (j judge) untouched(v Verdict, c scenarios.Untouched) Verdict {
	v = v.wants("neither cordoned, tainted nor deleted, and no pod evicted or deleted", c.Node)
	node, why := j.Node(c.Node)
	if why != "" {
		return v.unknown(why)
	}
	touches, unclear := j.Touches(node)
	if len(touches) > 0 {
		return v.fail(node+": "+describe(touches), capped(touches)...)
	}
	if len(unclear) > 0 {
		return v.unknown(node+": "+unclearWho(unclear), capped(unclear)...)
	}
	if why := j.Unseen(min(j.End, j.Gone(node))); why != "" {
		return v.unknown(node + " not touched: " + why)
	}
	return v.pass(node + " not touched")
}

var checkNodeEvent = check{
	Kind: Kind{
		ID: "nodeEvent", Title: "event on %s",
		Requires: "A Kubernetes event about the node, not by Kubernetes itself, appears within a time of the notice.",
		Fix:      "create a Kubernetes event on the Node when a notice arrives; if the handler does, check that its RBAC lets it create events",
		Look:     Look{Lane: LaneHandler, Text: "the lane Handler: what the handler reported about the node, and when"},
	},
	judge: by(judge.nodeEvent),
}

func (j judge) nodeEvent(v Verdict, c scenarios.NodeEvent) Verdict {
	v = v.wants(fmt.Sprintf("a Kubernetes event on the node within %s of notice %q", c.Within.D(), c.Notice), c.Node)
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	until := min(put.At+c.Within.D(), j.Gone(node))
	e, ok := j.First(func(e history.Event) bool {
		return e.Kind == history.ClusterEvent && e.Key == "Node" && e.Node == node && e.At >= put.At && !story.KubernetesComponent(e.Owner)
	})
	switch {
	case ok && e.At <= until:
		after := e.At - put.At
		v.Numbers = map[string]float64{"event_seconds": after.Seconds()}
		return v.pass(fmt.Sprintf("%s by %s after %s", e.Reason, e.Owner, history.Seconds(after)), put, e)
	case j.Unseen(until) != "":
		return v.unknown("no event: "+j.Unseen(until), put)
	case ok:
		return v.fail(fmt.Sprintf("%s by %s, but only after %s", e.Reason, e.Owner, history.Seconds(e.At-put.At)), put, e)
	}
	return v.fail("no event on "+node+" except those of Kubernetes itself", put)
}
