package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
)

// The checks of what only the end of a history shows.
const (
	checkRecorded = "recording complete"
	checkRestored = "restored"
)

// recorded asks whether the history is whole and of one piece: nothing can be
// concluded from what an incomplete record does not hold.
func (d drill) recorded() Verdict {
	v := Verdict{Check: checkRecorded, Want: "a whole history of this scenario, from its first event to its last"}
	h := d.history
	if !h.Complete {
		if h.Damage == "" {
			return v.unknown("not marked complete")
		}
		return v.unknown(h.Damage)
	}
	if h.Meta.Scenario != d.scenario.Name {
		return v.unknown(fmt.Sprintf("the history is of scenario %q", h.Meta.Scenario))
	}
	for i, e := range h.Events {
		if e.Seq != i+1 {
			return v.unknown(fmt.Sprintf("event %d is missing: %d comes in its place", i+1, e.Seq))
		}
	}
	for _, phase := range []string{"steps", "settle", "restore"} {
		if !slices.ContainsFunc(h.Events, func(e history.Event) bool { return e.Kind == history.RunPhase && e.Key == phase }) {
			return v.unknown(fmt.Sprintf("phase %q was never entered", phase))
		}
	}
	if n := len(h.Events); h.Events[n-1].Kind != history.RunEnded {
		return v.unknown("its last event is missing", h.Events[n-1])
	}
	if e, why := d.outOfNowhere(); why != "" {
		return v.unknown(why, e)
	}
	return v.pass(fmt.Sprintf("%d events and %d queries", len(h.Events), len(h.Queries)))
}

// outOfNowhere finds a node or pod that changes without ever having been seen
// to exist: the record of what was there at the start has a hole then.
func (d drill) outOfNowhere() (history.Event, string) {
	nodes := map[string]bool{}
	for _, e := range d.events {
		if e.Kind == history.NodePresent {
			nodes[e.Node] = true
		}
	}
	for _, e := range d.events {
		of := strings.HasPrefix(string(e.Kind), "node.") || strings.HasPrefix(string(e.Kind), "pod.")
		if of && e.Node != "" && !nodes[e.Node] {
			return e, fmt.Sprintf("node %s changed and was never seen to exist", e.Node)
		}
	}
	for _, p := range d.pods {
		if e := p.events[0]; e.Kind != history.PodPresent && e.Kind != history.PodCreated {
			return e, fmt.Sprintf("pod %s changed and was never seen to exist", e.Pod)
		}
	}
	return history.Event{}, ""
}

// harness asks whether the run itself broke.
func (d drill) harness() Verdict {
	v := Verdict{Check: "harness", Want: "no error of the harness"}
	for _, e := range d.history.Events {
		if e.Kind == history.RunError {
			return v.unknown(e.Note, e)
		}
	}
	return v.pass("none")
}

// reservedUntouched asks whether nodes were left alone that no interruption can
// be meant for: on-demand and control-plane ones that no notice names.
func (d drill) reservedUntouched() Verdict {
	v := Verdict{Check: "reserved nodes untouched", Want: "no on-demand or control-plane node cordoned, tainted, deleted or drained"}
	return d.untouchedAll(v, func(e history.Event) bool { return e.Key == "on-demand" || e.Key == "control-plane" })
}

// causeless asks whether spot nodes were touched that nothing named.
func (d drill) causeless() Verdict {
	v := Verdict{Check: "no node touched without a cause", Want: "no spot node touched before a notice named it"}
	return d.untouchedAll(v, func(e history.Event) bool { return e.Key == "spot" })
}

// untouchedAll wants no touch of the chosen nodes before a cause for it.
func (d drill) untouchedAll(v Verdict, chosen func(history.Event) bool) Verdict {
	nodes := map[string]bool{}
	var touched []history.Event
	for _, n := range d.events {
		if n.Kind != history.NodePresent || nodes[n.Node] || !chosen(n) {
			continue
		}
		nodes[n.Node] = true
		cause, caused := d.cause(n.Node)
		for _, e := range d.touches(n.Node) {
			if !caused || e.At < cause.At {
				touched = append(touched, e)
			}
		}
	}
	switch {
	case len(touched) > 0:
		return v.fail(fmt.Sprintf("%s: %s", touched[0].Node, describe(touched)), capped(touched)...)
	case len(nodes) == 0:
		return v.unknown("no such node was seen")
	case d.unseen(d.end) != "":
		return v.unknown("none touched: " + d.unseen(d.end))
	}
	return v.pass(fmt.Sprintf("none of %d touched", len(nodes)))
}

// cause is the first of the node's causes.
func (d drill) cause(node string) (history.Event, bool) {
	if causes := d.causes(node); len(causes) > 0 {
		return causes[0], true
	}
	return history.Event{}, false
}

// causes are the notices that name the node, and the messages whose body does.
func (d drill) causes(node string) []history.Event {
	naming := map[string]bool{}
	for _, step := range d.scenario.Steps {
		if m := step.Message; m != nil {
			for name := range d.scenario.Nodes {
				if n, why := d.node(name); why == "" && n == node && m.Names(name) {
					naming[m.Name] = true
				}
			}
		}
	}
	return d.all(func(e history.Event) bool {
		return e.Kind == history.NoticePut && e.Node == node || e.Kind == history.MessagePut && naming[e.Key] ||
			e.Kind == history.DNSDisrupted && e.Node == node
	})
}

// restored asks whether the cluster was given back as it was found. If not, the
// harness failed and not the handler, but the next drill starts on a ruin.
func (d drill) restored() Verdict {
	v := Verdict{Check: checkRestored, Want: "every node ready, schedulable and untainted again"}
	for _, e := range d.history.Events {
		if e.Kind == history.Restored {
			got := "restored"
			if e.Note != "" {
				got += ": " + e.Note
			}
			return v.pass(got, e)
		}
	}
	return v.unknown("the history does not say that the cluster was restored")
}
