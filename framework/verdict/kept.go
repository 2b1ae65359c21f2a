package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

var checkOthersKept = check{
	Kind: Kind{
		ID: "othersKept", Title: "others' state of %s kept",
		Requires: "The handler neither removes nor changes what others put on the node before the drill: taints with their effects, labels, annotations, and a cordon. What Kubernetes changes itself does not count.",
		Fix:      "change only the handler's own taint, labels and annotations: a merge patch replaces the whole list of taints, so name the resourceVersion that it is based on, and add to the list that was read",
		Look:     Look{Lane: LaneNode, Text: "the lane Node: what was taken off, and which of the handler's writes came just before? Then handler.log"},
	},
	judge: by(othersKept),
}

func othersKept(j judge, v Verdict, c scenarios.OthersKept) Verdict {
	v = v.wants("taints, labels, annotations and a cordon of others neither removed nor changed by the handler", c.Node)
	node, why := j.Node(c.Node)
	if why != "" {
		return v.unknown(why)
	}
	prepared := j.Prepared(node)
	if len(prepared) == 0 {
		return v.unknown("the history does not show that anything was prepared on " + node)
	}
	for _, p := range prepared {
		if !j.found(p) {
			return v.unknown(fmt.Sprintf("%s %s was not on %s when the drill began", p.Preparation(), p.Setting().Key, node), p)
		}
	}
	until := j.there(node)
	lost := j.All(func(e history.Event) bool {
		return e.Node == node && e.At >= j.Begun && e.At < until && j.takesOthers(e, prepared)
	})
	by := func(blame story.Blame) []history.Event {
		return filter(lost, func(e history.Event) bool { return j.Changed(e) == blame })
	}
	v.Numbers = map[string]float64{"prepared": float64(len(prepared)), "lost": float64(len(by(story.Blamed)))}
	wrote, acted := j.First(func(e history.Event) bool {
		return e.WroteNode() && e.Node == node
	})
	switch blamed, unclear := by(story.Blamed), by(story.Unclear); {
	case len(blamed) > 0:
		return v.fail(fmt.Sprintf("%s: %s (%s)", node, describe(blamed), blamed[0].Setting().Key), capped(blamed)...)
	case len(unclear) > 0:
		return v.unknown(node+": "+unclearWho(unclear), capped(unclear)...)
	case !acted:
		return v.unknown("nothing shows that the handler changed " + node + " at all")
	case j.Unseen(until) != "":
		return v.unknown("kept: "+j.Unseen(until), wrote)
	}
	return v.pass(fmt.Sprintf("%d kept", len(prepared)), prepared...)
}

// there is until when the node, and what is on it, is to be judged: until its instance or
// its object is gone.
func (j judge) there(node string) time.Duration {
	until := j.Gone(node)
	if e, ok := j.First(func(e history.Event) bool { return e.Kind == history.NodeDeleted && e.Node == node }); ok {
		until = min(until, e.At)
	}
	return until
}

// found reports whether the watch saw what was prepared. It does not report the labels and
// annotations that are there at first.
func (j judge) found(prepared history.Event) bool {
	kind := map[history.Preparation]history.Kind{history.PreparedCordon: history.NodeCordoned, history.PreparedTaint: history.NodeTainted}[prepared.Preparation()]
	if kind == "" {
		return true
	}
	_, ok := j.First(func(e history.Event) bool {
		return e.Kind == kind && e.Node == prepared.Node && e.At < j.Begun && e.Setting() == prepared.Setting()
	})
	return ok
}

// takesOthers reports whether by this event something is removed or replaced that others
// put on the node. A taint with another effect counts as removed.
func (j judge) takesOthers(e history.Event, prepared []history.Event) bool {
	if j.ByOperator(e) {
		return false
	}
	of := func(kind history.Preparation) bool {
		return slices.ContainsFunc(prepared, func(p history.Event) bool {
			return p.Preparation() == kind && p.Setting() == e.Setting()
		})
	}
	switch e.Kind {
	case history.NodeUncordoned:
		return of(history.PreparedCordon)
	case history.NodeUntainted:
		return of(history.PreparedTaint)
	case history.NodeLabelled, history.NodeAnnotated:
		return e.Note != "" && j.before(e)
	case history.NodeUnlabelled, history.NodeUnannotated:
		return j.before(e)
	}
	return false
}

// before reports whether the label or annotation was on the node before the drill, and is
// not one that Kubernetes changes itself.
func (j judge) before(e history.Event) bool {
	domain, _, _ := strings.Cut(e.Setting().Key, "/")
	if strings.HasSuffix(domain, "kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") {
		return false
	}
	group := map[history.Kind]history.Kind{history.NodeUnlabelled: history.NodeLabelled, history.NodeUnannotated: history.NodeAnnotated}
	set := cmp.Or(group[e.Kind], e.Kind)
	first, ok := j.First(func(o history.Event) bool {
		return o.Node == e.Node && o.Setting().Key == e.Setting().Key && o.Kind == set
	})
	return !ok || first.Note != "" || first.At > e.At
}

var checkMarkKept = check{
	Kind: Kind{
		ID: "markKept", Title: "mark of %s kept",
		Requires: "Once the handler has marked the node, it never leaves it without a mark that keeps pods away, until the instance is gone.",
		Fix:      "leave cordon and taint on the node when the drain is over, or blocked: the instance ends anyway, and pods that are scheduled there meanwhile end with it",
		Look:     Look{Lane: LaneNode, Text: "the lane Node: when was the mark taken off, and what had happened just before? Then handler.log"},
	},
	judge: by(markKept),
}

func markKept(j judge, v Verdict, c scenarios.MarkKept) Verdict {
	v = v.wants("never without a mark from the first one on", c.Node)
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	mark, ok := j.MarkedAfter(node, put)
	if !ok {
		return v.unknown(node+" was not marked", put)
	}
	until := j.there(node)
	var changes, unclear []history.Event
	for _, e := range j.Events {
		if e.Node != node || e.At < mark.At || e.At >= until || !j.MarkChange(e) {
			continue
		}
		changes = append(changes, e)
		if marks, _ := j.MarksAfter(changes); len(marks) > 0 || j.ByOperator(e) {
			continue
		}
		switch j.Changed(e) {
		case story.Blamed:
			return v.fail(fmt.Sprintf("the last mark was taken off at +%s, %s after the first", history.Seconds(e.At), history.Seconds(e.At-mark.At)), mark, e)
		case story.Unclear:
			unclear = append(unclear, e)
		}
	}
	switch {
	case len(unclear) > 0:
		return v.unknown(unclearWho(unclear), capped(append([]history.Event{mark}, unclear...))...)
	case j.Unseen(until) != "":
		return v.unknown("kept: "+j.Unseen(until), mark)
	}
	return v.pass(fmt.Sprintf("kept for %s", history.Seconds(min(until, j.Observed)-mark.At)), mark)
}
