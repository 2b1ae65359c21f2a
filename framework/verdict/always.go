package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
)

var checkRecorded = check{
	Kind: Kind{
		ID: "recordingComplete", Title: "recording complete",
		Requires: "The history is whole: all phases, every event, and nothing that changes without having been seen to exist.",
		Fix:      "the run was cut short: play it again; if it was not stopped by hand, the harness's error is reported next to it",
		Look:     Look{Text: "what the harness itself reported: the note, the console's output and the files of the drill"},
	},
	always: everywhere(recorded), observes: true,
}

// recorded checks whether the history is complete: what an incomplete record does
// not hold may still have happened.
func recorded(j judge, v Verdict) Verdict {
	v = v.wants("a whole history of this scenario, from its first event to its last")
	h := j.History
	if !h.Complete {
		if h.Damage == "" {
			return v.unknown("not marked complete")
		}
		return v.unknown(h.Damage)
	}
	if h.Meta.Scenario != j.Scenario.Name {
		return v.unknown(fmt.Sprintf("the history is of scenario %q", h.Meta.Scenario))
	}
	for i, e := range h.Events {
		if e.Seq != i+1 {
			return v.unknown(fmt.Sprintf("event %d is missing: %d comes in its place", i+1, e.Seq))
		}
	}
	for _, phase := range []history.Phase{history.Steps, history.Settle, history.Restore} {
		if !slices.ContainsFunc(h.Events, phase.BegunBy) {
			return v.unknown(fmt.Sprintf("phase %q was never entered", phase))
		}
	}
	if n := len(h.Events); h.Events[n-1].Kind != history.RunEnded {
		return v.unknown("its last event is missing", h.Events[n-1])
	}
	if e, why := j.outOfNowhere(); why != "" {
		return v.unknown(why, e)
	}
	return v.pass(fmt.Sprintf("%d events and %d queries", len(h.Events), len(h.Queries)))
}

// outOfNowhere finds a node or pod that changes without ever having been seen
// to exist: the record of what was there at the start has a hole then.
func (j judge) outOfNowhere() (history.Event, string) {
	nodes := map[string]bool{}
	for _, e := range j.Events {
		if e.Kind == history.NodePresent {
			nodes[e.Node] = true
		}
	}
	for _, e := range j.Events {
		of := strings.HasPrefix(string(e.Kind), "node.") || strings.HasPrefix(string(e.Kind), "pod.")
		if of && e.Node != "" && !nodes[e.Node] {
			return e, fmt.Sprintf("node %s changed and was never seen to exist", e.Node)
		}
	}
	for _, p := range j.Pods {
		if e := p.Events[0]; e.Kind != history.PodPresent && e.Kind != history.PodCreated {
			return e, fmt.Sprintf("pod %s changed and was never seen to exist", e.Pod)
		}
	}
	return history.Event{}, ""
}

var checkHarness = check{
	Kind: Kind{
		ID: "harness", Title: "harness",
		Requires: "The harness reported no error of its own.",
		Fix:      "it is not the handler: the error shows which part of the set-up broke; spotdrill doctor checks what this machine lacks",
		Look:     Look{Text: "what the harness itself reported: the note, the console's output and the files of the drill"},
	},
	always: everywhere(harness), observes: true,
}

// harness checks whether the run itself broke.
func harness(j judge, v Verdict) Verdict {
	v = v.wants("no error of the harness")
	for _, e := range j.History.Events {
		if e.Kind == history.RunError {
			return v.unknown(e.Note, e)
		}
	}
	return v.pass("none")
}

var checkReservedUntouched = check{
	Kind: Kind{
		ID: "reservedUntouched", Title: "reserved nodes untouched",
		Requires: "No on-demand or control-plane node that no notice names is cordoned, tainted, deleted or drained.",
		Fix:      "act only on nodes that a notice names: on-demand nodes and the control plane are none of them here",
		Look:     Look{Lane: LaneNode, Text: "the lane Node: what was done, and after which notice? Then handler.log"},
	},
	always: everywhere(reservedUntouched),
}

// reservedUntouched checks whether the on-demand and control-plane nodes that no
// notice names were left alone.
func reservedUntouched(j judge, v Verdict) Verdict {
	v = v.wants("no on-demand or control-plane node cordoned, tainted, deleted or drained")
	return j.untouchedAll(v, func(e history.Event) bool {
		return e.Capacity() == history.OnDemand || e.Capacity() == history.ControlPlane
	})
}

var checkCauseless = check{
	Kind: Kind{
		ID: "untouchedWithoutCause", Title: "no node touched without a cause",
		Requires: "No spot node is touched before a notice or message named it, and no pod is evicted that is on no node.",
		Fix:      "act only on nodes that a notice names; look in handler.log for what made it act",
		Look:     Look{Lane: LaneNode, Text: "the lane Node: what was done, and after which notice? Then handler.log"},
	},
	always: everywhere(causeless),
}

// causeless checks whether spot nodes were touched before anything named them. A pod
// that is on no node never has to leave one.
func causeless(j judge, v Verdict) Verdict {
	v = v.wants("no spot node touched before a notice named it")
	if unbound := j.All(func(e history.Event) bool { return e.Node == "" && j.Evicts(e) }); len(unbound) > 0 {
		return v.fail("pods that were on no node: "+describe(unbound), capped(unbound)...)
	}
	return j.untouchedAll(v, func(e history.Event) bool { return e.Capacity() == history.Spot })
}

// untouchedAll requires that none of the chosen nodes is touched before a cause for it.
func (j judge) untouchedAll(v Verdict, chosen func(history.Event) bool) Verdict {
	nodes := map[string]bool{}
	var touched, unclear []history.Event
	for _, n := range j.Events {
		if n.Kind != history.NodePresent || nodes[n.Node] || !chosen(n) {
			continue
		}
		nodes[n.Node] = true
		cause, caused := j.cause(n.Node)
		causeless := func(e history.Event) bool { return !caused || e.At < cause.At }
		blamed, perhaps := j.Touches(n.Node)
		touched = append(touched, filter(blamed, causeless)...)
		unclear = append(unclear, filter(perhaps, causeless)...)
	}
	switch {
	case len(touched) > 0:
		return v.fail(fmt.Sprintf("%s: %s", touched[0].Node, describe(touched)), capped(touched)...)
	case len(nodes) == 0:
		return v.unknown("no such node was seen")
	case len(unclear) > 0:
		return v.unknown(fmt.Sprintf("%s: %s", unclear[0].Node, unclearWho(unclear)), capped(unclear)...)
	case j.Unseen(j.End) != "":
		return v.unknown("none touched: " + j.Unseen(j.End))
	}
	return v.pass(fmt.Sprintf("none of %d touched", len(nodes)))
}

// cause is the first of the node's causes.
func (j judge) cause(node string) (history.Event, bool) {
	if causes := j.Causes(node); len(causes) > 0 {
		return causes[0], true
	}
	return history.Event{}, false
}

var checkRestored = check{
	Kind: Kind{
		ID: "restored", Title: "restored",
		Requires: "Every node is Ready, schedulable and untainted again after the drill.",
		Fix:      "the cluster could not be put back: spotdrill down removes it, and the next run makes a new one",
		Look:     Look{Text: "the harness's last events, and state/ of the drill: which node did not come back"},
	},
	always: everywhere(restored), observes: true,
}

// restored checks whether the cluster was put back as it was found. If not, the
// harness failed, not the handler, but the next drill starts on a broken cluster.
func restored(j judge, v Verdict) Verdict {
	v = v.wants("every node ready, schedulable and untainted again")
	for _, e := range j.History.Events {
		if e.Kind == history.Restored {
			got := "restored"
			if e.Note != "" {
				got += ": " + e.Note
			}
			return v.pass(got, e)
		}
	}
	return v.unknown("the history does not report that the cluster was restored")
}
