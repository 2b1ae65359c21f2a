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
	v = v.requires("a whole history of this scenario, from its first event to its last")
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
