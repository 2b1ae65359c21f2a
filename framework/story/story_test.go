package story

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

func sec(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func at(seconds float64, e history.Event) history.Event {
	e.At = sec(seconds)
	return e
}

func pod(seconds float64, kind history.Kind, name, node string) history.Event {
	e := history.NewPodCreated("ns/"+name, name, "app", history.At(sec(seconds)), history.Node(node), history.Owner("ReplicaSet/app-1"))
	switch kind {
	case history.PodPresent:
		return history.NewPodPresent(e.Pod, e.UID, "app", "", history.Like(e))
	case history.PodEvicted:
		return history.NewPodEvicted(e.Pod, e.UID, "EvictionByEvictionAPI", history.Like(e))
	}
	e.Kind = kind
	return e
}

// drain is a node that is noticed at 10 s, tainted by the handler at 12 s and taken at
// 30 s; the steps begin at 9 s and restoring at 40 s.
func drain(more ...history.Event) history.History {
	h := history.History{Meta: history.Meta{Handler: history.Handler{Taint: "example.com/draining", DrainEvent: "Draining"}}}
	h.Events = slices.Concat(more, []history.Event{
		at(1, history.NewNodePresent("w-1", "")), at(1, history.NewNodeRole("victim", "w-1")),
		at(1, history.NewNodeRole("ghost", "w-9")),
		at(9, history.Steps.Begins()),
		at(10, history.NewNoticePut("reclaim", "", "w-1")),
		at(12, history.NewNodeTainted("w-1", "example.com/draining", "")),
		at(30, history.NewReclaimed("w-1")),
		at(40, history.Restore.Begins()),
		at(45, history.NewNodeUntainted("w-1", "example.com/draining", "")),
	})
	return h
}

// brokenAt reports an error of the harness before the first event that is later.
func brokenAt(seconds float64, h history.History) history.History {
	later := slices.IndexFunc(h.Events, func(e history.Event) bool { return e.At > sec(seconds) })
	h.Events = slices.Insert(h.Events, later, at(seconds, history.NewRunError("")))
	return h
}

func TestTheBoundsOfADrill(t *testing.T) {
	st := Read(scenarios.Scenario{}, drain())
	if st.Begun != sec(9) || st.End != sec(40) || st.Last != sec(45) || st.Observed != sec(40) {
		t.Errorf("begun %s, end %s, last %s, observed until %s", st.Begun, st.End, st.Last, st.Observed)
	}
	if started, ok := st.Started(); !ok || started != sec(10) {
		t.Errorf("started at %s, %t", started, ok)
	}
	if _, ok := st.FirstOf(history.NodeUntainted); ok {
		t.Error("what restoring does is part of the drill")
	}
	if broken := Read(scenarios.Scenario{}, brokenAt(38, drain())); broken.Observed != sec(30) || broken.Unseen(sec(29)) != "" || broken.Unseen(sec(31)) == "" {
		t.Errorf("nothing was recorded between 30 s and an error of the harness, observed until %s", broken.Observed)
	}
	if late := Read(scenarios.Scenario{}, brokenAt(44, drain())); late.Observed != sec(40) {
		t.Errorf("with an error while the cluster was put back, observed until %s", late.Observed)
	}
	if nothing := Read(scenarios.Scenario{}, history.History{}); nothing.End != math.MaxInt64 || nothing.Observed != 0 {
		t.Errorf("of no history: end %s, observed until %s", nothing.End, nothing.Observed)
	}
}

func TestNodesByTheirNames(t *testing.T) {
	st := Read(scenarios.Scenario{}, drain())
	for name, want := range map[string]string{"victim": "w-1", "ghost": "", "other": ""} {
		if node, why := st.Node(name); node != want || (why == "") != (want != "") {
			t.Errorf("%s: node %q, because %q", name, node, why)
		}
	}
	if st.Role("w-1") != "victim" || st.Role("w-2") != "" || st.Stays("w-1") != sec(30) || st.Stays("w-2") != sec(40) {
		t.Errorf("roles %q and %q, there until %s and %s", st.Role("w-1"), st.Role("w-2"), st.Stays("w-1"), st.Stays("w-2"))
	}
}

// A drain has to move what is on the node when the notice is put, and what comes before
// the handler's own mark or was being bound then; not what comes later, and not what a
// drain leaves.
func TestWhoHasToLeave(t *testing.T) {
	daemon := pod(1, history.PodPresent, "daemon", "w-1")
	daemon.Owner = "DaemonSet/agent"
	st := Read(scenarios.Scenario{}, drain(
		pod(1, history.PodPresent, "there", "w-1"), pod(1, history.PodPresent, "elsewhere", "w-2"), daemon,
		pod(1, history.PodPresent, "gone", "w-1"), pod(5, history.PodDeleted, "gone", "w-1"),
		at(10.5, history.NewNodeCordoned("w-1")), // by somebody else
		pod(11, history.PodCreated, "before-the-mark", ""), pod(11, history.PodScheduled, "before-the-mark", "w-1"),
		pod(12.9, history.PodCreated, "in-flight", ""), pod(12.9, history.PodScheduled, "in-flight", "w-1"),
		pod(13, history.PodCreated, "after-the-mark", ""), pod(13, history.PodScheduled, "after-the-mark", "w-1"),
	))
	put, _ := st.FirstOf(history.NoticePut)
	var names []string
	for _, p := range st.ToDrain("w-1", put) {
		names = append(names, p.Name())
	}
	if !slices.Equal(names, []string{"ns/there", "ns/before-the-mark", "ns/in-flight"}) {
		t.Errorf("to drain: %v", names)
	}
	if mark, ok := st.MarkedAfter("w-1", put); !ok || mark.At != sec(12) {
		t.Errorf("marked at %s, %t: only the handler's taint is its mark", mark.At, ok)
	}
}

func TestSignsOfADrain(t *testing.T) {
	st := Read(scenarios.Scenario{}, drain(
		at(11, history.NewClusterEvent("Node", "Draining", history.Node("w-1"))),
		at(14, history.NewClusterEvent("Node", "Draining", history.Node("w-1"))),
		at(35, history.NewClusterEvent("Node", "Draining", history.Node("w-1"))), // its instance is gone
	))
	if sign, n := Most(st.Signs("w-1")); sign != "Draining" || n != 2 {
		t.Errorf("%s %d times", sign, n)
	}
	if begun, ok := st.DrainBegun("w-1"); !ok || begun.At != sec(11) {
		t.Errorf("begun at %s, %t", begun.At, ok)
	}
}

func kinds(events []history.Event) (out []history.Kind) {
	for _, e := range events {
		out = append(out, e.Kind)
	}
	return out
}

func TestWhoInterferesWithANode(t *testing.T) {
	workload := scenarios.Scenario{Workload: scenarios.Workload{Replicas: 1}}
	evicted := pod(15, history.PodEvicted, "evicted", "w-1")
	st := Read(workload, drain(
		pod(1, history.PodPresent, "evicted", "w-1"), evicted, pod(15.1, history.PodTerminating, "evicted", "w-1"),
		pod(1, history.PodPresent, "deleted", "w-1"), pod(16, history.PodTerminating, "deleted", "w-1"),
		pod(18, history.PodTerminating, "deleted", "w-1"), pod(18, history.PodDeleted, "deleted", "w-1"), // its end
		pod(1, history.PodPresent, "at-once", "w-1"), pod(19, history.PodDeleted, "at-once", "w-1"),
		pod(1, history.PodPresent, "early", "w-1"), pod(3, history.PodTerminating, "early", "w-1"), // before the steps
		at(17, history.NewNodeTainted("w-1", "node.kubernetes.io/not-ready", "")),
	))
	blamed, unclear := st.Touches("w-1")
	want := []history.Kind{history.NodeTainted, history.PodEvicted, history.PodTerminating, history.PodDeleted}
	if !slices.Equal(kinds(blamed), want) || len(unclear) > 0 {
		t.Errorf("touches %v, want %v: the handler's taint, the eviction, and the deletions without one; unclear %v", kinds(blamed), want, kinds(unclear))
	}
}

// Who deleted a pod that is not the workload's, or put on a taint that is not the
// handler's, is what the API server's audit log has.
func TestWhoseDoingItWas(t *testing.T) {
	daemon := func(seconds float64, kind history.Kind) history.Event {
		e := pod(seconds, kind, "agent", "w-2")
		e.Owner = "DaemonSet/agent"
		return e
	}
	said := func(seconds float64, e history.Event) history.Event {
		d := sec(seconds)
		e.At, e.Said = sec(39), &d
		return e
	}
	read := at(39, history.NewAuditRead(""))
	took := func(seconds float64, name string) history.Event {
		return said(seconds, history.NewHandlerTook("", name))
	}
	wrote := func(seconds float64, node string) history.Event {
		return said(seconds, history.NewHandlerWrote("", node, ""))
	}
	right := func(verb string) history.Event {
		return at(39, history.NewRBACUsed("", verb, "/pods"))
	}
	own := []history.Event{daemon(1, history.PodPresent), daemon(20, history.PodTerminating)}
	for i := range own {
		own[i].Owner = "ReplicaSet/handler-1"
	}
	deletion := []history.Event{daemon(1, history.PodPresent), daemon(20, history.PodTerminating)}
	tainted := []history.Event{at(20, history.NewNodeTainted("w-2", "cni.example.com/agent-not-ready", ""))}
	for name, x := range map[string]struct {
		what  []history.Event
		audit []history.Event
		want  Blame
	}{
		"deleted, and no audit log":                            {deletion, nil, Unclear},
		"its own pod deleted, and no audit log":                {own, nil, Blameless},
		"deleted by the handler":                               {deletion, []history.Event{read, took(19.9, "ns/agent")}, Blamed},
		"deleted by the handler with all of its namespace":     {deletion, []history.Event{read, took(19.9, "ns/")}, Blamed},
		"deleted by somebody else":                             {deletion, []history.Event{read}, Blameless},
		"deleted by somebody else, and another by the handler": {deletion, []history.Event{read, took(19.9, "ns/other")}, Blameless},
		"deleted before the handler asked":                     {deletion, []history.Event{read, took(20.1, "ns/agent")}, Blameless},
		"deleted, and the handler never used the right":        {deletion, []history.Event{right("list")}, Blameless},
		"deleted, and the handler used the right":              {deletion, []history.Event{right("delete")}, Unclear},
		"tainted, and no audit log":                            {tainted, nil, Unclear},
		"tainted by the handler":                               {tainted, []history.Event{read, wrote(19.9, "w-2")}, Blamed},
		"tainted by the handler, by the log of its Nodes":      {tainted, []history.Event{wrote(19.9, "w-2")}, Blamed},
		"tainted by somebody else":                             {tainted, []history.Event{read}, Blameless},
		"tainted by somebody else, and another by the handler": {tainted, []history.Event{wrote(19.9, "w-1")}, Blameless},
		"tainted long after the handler changed the node":      {tainted, []history.Event{wrote(9, "w-2")}, Blameless},
		"tainted soon after the handler changed the node":      {tainted, []history.Event{wrote(15, "w-2")}, Unclear},
	} {
		for handler, want := range map[string]Blame{"some": x.want, "none": Blameless} {
			h := drain(slices.Concat(x.what, x.audit)...)
			h.Meta.Handler.Name, h.Meta.Handler.Deployment = handler, "ns/handler"
			blamed, unclear := Read(scenarios.Scenario{}, h).Touches("w-2")
			got := Blameless
			switch {
			case len(blamed) > 0:
				got = Blamed
			case len(unclear) > 0:
				got = Unclear
			}
			if got != want {
				t.Errorf("%s, with handler %q: %d, want %d", name, handler, got, want)
			}
		}
	}
}

func TestWhosePodsAreTheHandlers(t *testing.T) {
	pod := func(name, owner string) Pod {
		return Pod{Events: []history.Event{history.NewPodPresent(name, "", "", "", history.Owner(owner))}}
	}
	deployment, daemonSet := history.Handler{Deployment: "ns/handler"}, history.Handler{DaemonSet: "ns/handler"}
	for name, c := range map[string]struct {
		pod  Pod
		of   history.Handler
		want bool
	}{
		"of its Deployment":                {pod("ns/handler-5d4-x2", "ReplicaSet/handler-5d4"), deployment, true},
		"of one with a longer name":        {pod("ns/handler-2-5d4-x2", "ReplicaSet/handler-2-5d4"), deployment, false},
		"of one in another namespace":      {pod("other/handler-5d4-x2", "ReplicaSet/handler-5d4"), deployment, false},
		"of its DaemonSet":                 {pod("ns/handler-x2", "DaemonSet/handler"), daemonSet, true},
		"of another DaemonSet":             {pod("ns/handler-2-x2", "DaemonSet/handler-2"), daemonSet, false},
		"of a DaemonSet of that name":      {pod("ns/handler-x2", "DaemonSet/handler"), deployment, false},
		"of a Deployment of that name":     {pod("ns/handler-5d4-x2", "ReplicaSet/handler-5d4"), daemonSet, false},
		"of a DaemonSet in another":        {pod("other/handler-x2", "DaemonSet/handler"), daemonSet, false},
		"of a handler that runs nowhere":   {pod("ns/handler-x2", "DaemonSet/handler"), history.Handler{}, false},
		"without an owner, and no handler": {pod("ns/handler", ""), history.Handler{}, false},
	} {
		if got := c.pod.OfHandler(c.of); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// aboutMessages is a requirement on messages.
type aboutMessages struct{}

func (aboutMessages) Validate(*scenarios.Scope)                       {}
func (aboutMessages) DecidedBy(scenarios.Times) scenarios.Observation { return scenarios.AtEnd() }

func (aboutMessages) Needs() scenarios.Needs { return scenarios.Needs{Messages: true} }

// A history of a handler that reads metadata is read without what only a queue can show.
func TestAHandlerThatReadsMetadataIsReadWithoutAQueue(t *testing.T) {
	s := scenarios.Scenario{Checks: []scenarios.Check{{Kind: "queueEmpty", Requirement: aboutMessages{}}, {Kind: "notRestarted"}}}
	for from, want := range map[history.NoticeSource]int{"": 2, history.FromQueue: 2, history.FromMetadata: 1} {
		if got := len(Read(s, history.History{Meta: history.Meta{Handler: history.Handler{Reads: from}}}).Scenario.Checks); got != want {
			t.Errorf("from %q: %d checks, want %d", from, got, want)
		}
	}
}

func TestWhenAnInstanceIsTakenForGood(t *testing.T) {
	taken := func(seconds float64) history.Event {
		return at(seconds, history.NewReclaimed("worker"))
	}
	again := func(seconds float64) history.Event {
		return at(seconds, history.NewOperatorActed("", history.StartAgain, "worker"))
	}
	for name, c := range map[string]struct {
		then []history.Event
		want float64
		ok   bool
	}{
		"never":                     {nil, 0, false},
		"once":                      {[]history.Event{taken(5)}, 5, true},
		"started again":             {[]history.Event{taken(5), again(6)}, 0, false},
		"started again and taken":   {[]history.Event{taken(5), again(6), taken(8)}, 8, true},
		"another operation is none": {[]history.Event{taken(5), at(6, history.NewOperatorActed("", history.ReadmitNode, "worker"))}, 5, true},
		"of another node":           {[]history.Event{at(5, history.NewReclaimed("worker2"))}, 0, false},
		"another node starts again": {[]history.Event{taken(5), at(6, history.NewOperatorActed("", history.StartAgain, "worker2"))}, 5, true},
	} {
		t.Run(name, func(t *testing.T) {
			st := Read(scenarios.Scenario{}, history.History{Events: append(c.then, at(40, history.Restore.Begins()))})
			e, ok := st.Reclaimed("worker")
			if ok != c.ok || ok && e.At != sec(c.want) {
				t.Errorf("Reclaimed() = %s, %v", e.At, ok)
			}
			if !c.ok && (st.Gone("worker") != math.MaxInt64 || st.Stays("worker") != st.End) {
				t.Errorf("Gone() = %s and Stays() = %s, want never and the end of the drill, %s", st.Gone("worker"), st.Stays("worker"), st.End)
			}
		})
	}
}
