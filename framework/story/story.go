// Package story reads a drill's history: when the drill began and ended, which node
// plays which role, what became of each pod, and what the handler did to which node.
// Verdicts and timelines both read a history through it, so that they cannot
// contradict each other. It judges nothing.
package story

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Story is a drill as its history shows it.
type Story struct {
	Scenario scenarios.Scenario
	History  history.History
	// Events are those of the drill itself in order of time: what happens after
	// Restore begins is the harness's doing, and what happens to drills that were
	// played at the same time is theirs.
	Events []history.Event
	// Begun is when the steps begin; what was found before is not the drill's. It is
	// the largest Duration if they never begin.
	Begun time.Duration
	// End is when the cluster begins to be restored; the largest Duration if never.
	End time.Duration
	// Last is when the last event was recorded.
	Last time.Duration
	// Observed is up to when the absence of an event means that it did not happen: the
	// end, or what was recorded last before the first error of the harness. An error is
	// often reported long after the record has ended.
	Observed time.Duration
	// Pods are all pods of the drill's events, in order of their first event.
	Pods []Pod

	audit audit
	// undisrupted are the pods, by UID, that Kubernetes does not show were evicted or
	// disrupted: by the DisruptionTarget condition.
	undisrupted map[string]Pod
	gaps        []gap
	standstills []standstill
}

// Read reads the history of a scenario that was played.
func Read(s scenarios.Scenario, h history.History) *Story {
	if h.Meta.Handler.ReadsMetadata() {
		s = s.WithoutQueue()
	}
	st := &Story{Scenario: s, History: h, Begun: math.MaxInt64, End: math.MaxInt64, audit: readAudit(h), undisrupted: map[string]Pod{}}
	for _, e := range h.Events {
		st.Last = max(st.Last, e.At)
		switch {
		case history.Steps.BegunBy(e):
			st.Begun = min(st.Begun, e.At)
		case history.Restore.BegunBy(e):
			st.End = min(st.End, e.At)
		}
	}
	st.Observed = min(st.End, st.Last)
	if broken := slices.IndexFunc(h.Events, func(e history.Event) bool { return e.Kind == history.RunError && e.At <= st.End }); broken >= 0 {
		st.Observed = lastSeen(h.Events[:broken])
	}
	st.gaps, st.standstills = gapsOf(h.Events), standstillsOf(h.Events)
	for _, e := range history.Own(h.Events) {
		if e.At < st.End {
			st.Events = append(st.Events, e)
		}
	}
	slices.SortStableFunc(st.Events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	for _, group := range history.Pods(st.Events) {
		st.Pods = append(st.Pods, Pod{group, h.Meta.Handler.Taint})
	}
	for _, p := range st.Pods {
		if _, disrupted := p.FirstOf(history.PodEvicted); !disrupted {
			st.undisrupted[p.UID()] = p
		}
	}
	return st
}

// lastSeen is the time of the last event that something outside of the harness caused.
func lastSeen(events []history.Event) time.Duration {
	last := time.Duration(0)
	for _, e := range events {
		if !strings.HasPrefix(string(e.Kind), "run.") && e.Kind != history.NoticePut {
			last = max(last, e.At)
		}
	}
	return last
}

// ofWorkload reports whether the pod is one of the scenario's workload.
func (st *Story) ofWorkload(p Pod) bool {
	return slices.ContainsFunc(st.Scenario.Workload.Groups(), p.In)
}

// First returns the first of the drill's events that ok accepts.
func (st *Story) First(ok func(history.Event) bool) (history.Event, bool) {
	if i := slices.IndexFunc(st.Events, ok); i >= 0 {
		return st.Events[i], true
	}
	return history.Event{}, false
}

// FirstOf returns the first of the drill's events of a kind.
func (st *Story) FirstOf(kind history.Kind) (history.Event, bool) {
	return st.First(func(e history.Event) bool { return e.Kind == kind })
}

// All returns the drill's events that ok accepts.
func (st *Story) All(ok func(history.Event) bool) []history.Event {
	var out []history.Event
	for _, e := range st.Events {
		if ok(e) {
			out = append(out, e)
		}
	}
	return out
}

// AllOf returns the drill's events of any of the kinds.
func (st *Story) AllOf(kinds ...history.Kind) []history.Event {
	return st.All(func(e history.Event) bool { return slices.Contains(kinds, e.Kind) })
}

// Started is when the fault began: when the first notice or message was put, when
// CoreDNS was disrupted, an add-on upgraded, the handler configured otherwise, a node drained
// or its Node object deleted by hand, or a node taken without a notice. In a cluster that is not
// spotdrill's own: when what is observed began.
func (st *Story) Started() (time.Duration, bool) {
	if st.Scenario.Observe != nil {
		e, ok := st.FirstOf(history.ObservationBegun)
		return e.At, ok
	}
	unannounced := st.Scenario.Unannounced()
	e, ok := st.First(func(e history.Event) bool {
		switch e.Kind {
		case history.NoticePut, history.MessagePut, history.DNSDisrupted, history.HandlerReconfigured, history.AddOnUpgrading:
			return true
		}
		return (e.Kind == history.Reclaimed || e.Kind == history.NodeShutdown) && unannounced || ToFinish(e) || drainedByHand(e)
	})
	return e.At, ok
}

// NodesSeen are the names of the nodes that the record has. Those of drills in other lanes are not among them.
func (st *Story) NodesSeen() map[string]bool {
	seen := map[string]bool{}
	for _, e := range st.History.Events {
		if e.Kind == history.NodePresent {
			seen[e.Node] = true
		}
	}
	return seen
}

// OutOfNowhere finds a node or pod that changes without ever having been seen
// to exist: the record of what was there at the start has a hole then.
func OutOfNowhere(st *Story) (history.Event, string) {
	nodes := st.NodesSeen()
	for _, e := range st.Events {
		of := strings.HasPrefix(string(e.Kind), "node.") || strings.HasPrefix(string(e.Kind), "pod.")
		if of && e.Node != "" && !nodes[e.Node] {
			return e, fmt.Sprintf("node %s changed and was never seen to exist", e.Node)
		}
	}
	for _, p := range st.Pods {
		if e := p.Events[0]; e.Kind != history.PodPresent && e.Kind != history.PodCreated {
			return e, fmt.Sprintf("pod %s changed and was never seen to exist", e.Pod)
		}
	}
	return history.Event{}, ""
}
