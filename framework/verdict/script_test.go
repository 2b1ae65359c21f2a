package verdict

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// story is a drill written by hand: a scenario and its history, to be changed by a
// test before it is judged.
type script struct {
	scenario scenarios.Scenario
	meta     history.Meta
	events   []history.Event
	queries  []history.Query
	flows    []history.Flow
	cut      string // damage of an incomplete history
}

const (
	victim    = "worker-spot-a"
	bystander = "worker-spot-b"
	reserved  = "worker-on-demand"
	plane     = "control-plane"
)

func sec(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (s *script) at(seconds float64, e history.Event) {
	e.At = sec(seconds)
	s.events = append(s.events, e)
}

func (s *script) pod(seconds float64, kind history.Kind, name, node, owner string) {
	e := history.NewPodCreated("default/"+name, "uid-"+name, "", history.Node(node), history.Owner(owner))
	switch kind {
	case history.PodPresent:
		e = history.NewPodPresent(e.Pod, e.UID, "", "Running", history.Like(e))
	case history.PodEvicted:
		e = history.NewPodEvicted(e.Pod, e.UID, "EvictionByEvictionAPI", history.Like(e))
	default:
		e.Kind = kind
	}
	s.at(seconds, e)
}

// drop removes the events for which ok holds.
func (s *script) drop(ok func(history.Event) bool) { s.events = slices.DeleteFunc(s.events, ok) }

func kind(k history.Kind) func(history.Event) bool {
	return func(e history.Event) bool { return e.Kind == k }
}

// change edits every event of a kind.
func (s *script) change(k history.Kind, edit func(*history.Event)) {
	for i := range s.events {
		if s.events[i].Kind == k {
			edit(&s.events[i])
		}
	}
}

// lose gives the queries of a target and mode in a time another fate.
func (s *script) lose(target string, mode history.Mode, from, to float64, o history.Outcome) {
	for i, q := range s.queries {
		if q.Target == target && q.Mode == mode && q.Intended >= sec(from) && q.Intended <= sec(to) {
			s.queries[i].Outcome = o
		}
	}
}

func (s *script) ask(target string, mode history.Mode, rate int, from, to float64) {
	interval := time.Second / time.Duration(rate)
	for at := sec(from); at < sec(to); at += interval {
		s.queries = append(s.queries, history.Query{
			Target: target, Mode: mode, Port: 40000, Intended: at, Sent: at, Done: at + 2*time.Millisecond, Outcome: history.Answered,
		})
	}
}

func (s *script) probe(from, to float64) {
	p := s.scenario.Probe
	s.ask(history.Service, history.Fresh, p.Fresh, from, to)
	s.ask(history.Service, history.Fixed, p.Fixed, from, to)
	s.ask(history.Control, history.Fresh, p.Control, from, to)
	s.at(from, history.NewProberStarted(""))
	s.at(to, history.NewProberEnded("", history.With(history.Numbers{
		history.Asked: float64(len(s.queries)), history.UnsentQueries: 0, history.LateP99: 0.001, history.LateMax: 0.002,
	})))
}

// history puts the events in order and numbers them.
func (s *script) history() history.History {
	h := history.History{
		Meta: s.meta, Events: slices.Clone(s.events), Queries: s.queries, Flows: s.flows,
		Complete: s.cut == "", Damage: s.cut,
	}
	slices.SortStableFunc(h.Events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	for i := range h.Events {
		h.Events[i].Seq = i + 1
	}
	return h
}

func (s *script) judge() Result { return Judge(s.scenario, s.history()) }

// arrange records what a drill begins with: nodes, their roles and their pods.
func (s *script) arrange() {
	s.at(0.1, history.Arrange.Begins())
	s.at(0.2, history.NewNodeRole("victim", victim, history.Instance("i-a")))
	s.at(0.3, history.Record.Begins())
	for _, n := range []struct{ name, capacity string }{{plane, "control-plane"}, {reserved, "on-demand"}, {victim, "spot"}, {bystander, "spot"}} {
		s.at(1, history.NewNodePresent(n.name, n.capacity))
		s.pod(1, history.PodPresent, "proxy-"+n.name, n.name, "DaemonSet/kube-proxy")
	}
	// What was there before the drill was not done by anyone in it.
	s.at(1, history.NewNodeTainted(plane, "node-role.kubernetes.io/control-plane", "NoSchedule"))
	s.pod(1, history.PodPresent, "ending", bystander, "ReplicaSet/ending")
	s.pod(1, history.PodEvicted, "ending", bystander, "ReplicaSet/ending")
	s.pod(1, history.PodTerminating, "ending", bystander, "ReplicaSet/ending")
	s.pod(1, history.PodPresent, "static", victim, "Node/"+victim)
	s.pod(1, history.PodPresent, "coredns-a", victim, "ReplicaSet/coredns")
	s.at(1, history.NewEndpointReady("", "default/coredns-a", "10.0.0.1"))
	s.at(2, history.Steps.Begins())
}

// restore records how a drill ends, from the end of settling on.
func (s *script) restore(seconds float64) {
	s.at(seconds, history.NewQueueDepth(history.With(history.Numbers{history.Visible: s.undeleted(), history.Invisible: 0})))
	s.at(seconds, history.Restore.Begins())
	// What putting back does to nodes and pods is not the handler's doing.
	s.at(seconds+2, history.NewNodeUncordoned(victim))
	s.pod(seconds+2, history.PodTerminating, "proxy-"+bystander, bystander, "DaemonSet/kube-proxy")
	s.at(seconds+3, history.NewNodeCordoned(reserved))
	s.at(seconds+5, history.NewRestored())
	s.at(seconds+6, history.NewRunEnded())
}

// undeleted is how many of the messages that were put have not been deleted.
func (s *script) undeleted() float64 {
	left := 0
	for _, e := range s.events {
		switch e.Kind {
		case history.NoticePut, history.MessagePut:
			left++
		case history.SQSDeleted:
			left--
		}
	}
	return float64(left)
}

// drainStory is a spot notice handled as it should be. It passes.
func drainStory() *script {
	s := &script{
		scenario: scenarios.Scenario{
			Name: "drain", Title: "A drain", Profile: "SPOT",
			Nodes:  map[string]scenarios.Pick{"victim": {Capacity: "spot"}, "bystander": {Capacity: "spot"}},
			Probe:  &scenarios.Probe{Fresh: 40, Fixed: 20, Control: 10},
			Settle: strict.Duration(sec(5)),
			Steps: []scenarios.Step{
				{Notice: &scenarios.Notice{Name: "reclaim", Type: "spot-interruption", Nodes: []string{"victim"}}},
				{Reclaim: &scenarios.Reclaim{Node: "victim", At: "reclaim"}},
			},
			Checks: []scenarios.Check{
				Require(Marked{Node: "victim", Notice: "reclaim", Within: strict.Duration(sec(5))}),
				Require(Drained{Node: "victim", Notice: "reclaim"}),
				Require(NoEviction{Node: "victim", DaemonPods: true}),
				Require(Deleted{Of: "reclaim", Within: strict.Duration(sec(10))}),
				Require(Untouched{Node: "bystander"}),
				Require(Reported{Node: "victim", Notice: "reclaim", Within: strict.Duration(sec(5))}),
				Require(Losses{Of: scenarios.DNS, Mode: "all", Max: new(0)}),
				Require(Losses{Of: scenarios.DNS, Mode: "fresh", MaxWindow: strict.Duration(sec(5))}),
			},
		},
		meta: history.Meta{
			Format: history.FormatV1, Scenario: "drain", Set: "fast", Attempt: 1,
			Handler: history.Handler{Name: "builtin", Version: "1", Unschedulable: true, Taint: "example.com/disrupted"},
		},
	}
	s.arrange()
	s.at(0.2, history.NewNodeRole("bystander", bystander, history.Instance("i-b")))
	until := sec(24)
	s.at(4, history.NewNoticePut("reclaim", "", victim, history.Notice("n-1"), history.Instance("i-a"), history.Until(until)))
	s.at(4.2, history.NewSQSReceived("", "m-1", "n-1"))
	s.at(4.5, history.NewNodeCordoned(victim))
	s.at(4.5, history.NewNodeTainted(victim, "node.kubernetes.io/unschedulable", "NoSchedule"))
	s.at(4.6, history.NewClusterEvent("Node", "SpotInterruption", history.Node(victim), history.Owner("builtin")))
	s.pod(5, history.PodEvicted, "coredns-a", victim, "ReplicaSet/coredns")
	s.pod(5, history.PodTerminating, "coredns-a", victim, "ReplicaSet/coredns")
	s.pod(5.1, history.PodCreated, "coredns-b", "", "ReplicaSet/coredns")
	s.pod(5.2, history.PodScheduled, "coredns-b", bystander, "ReplicaSet/coredns")
	s.at(5.3, history.NewEndpointTerminating("", "default/coredns-a", "10.0.0.1", false))
	s.pod(5.9, history.PodReady, "coredns-b", bystander, "ReplicaSet/coredns")
	s.at(6, history.NewSQSDeleted("", "m-1", "n-1"))
	s.pod(10, history.PodDeleted, "coredns-a", victim, "ReplicaSet/coredns")
	s.at(24, history.NewReclaimed(victim))
	s.at(24.1, history.Settle.Begins())
	s.probe(2, 29.1)
	s.restore(29.2)
	return s
}

// incidentStory is a node taken with a DNS pod on it and no one acting. It
// passes: the outage is what its checks want.
func incidentStory() *script {
	s := &script{
		scenario: scenarios.Scenario{
			Name: "incident", Title: "An incident", Profile: "INCIDENT", Handler: scenarios.HandlerNone,
			Nodes:  map[string]scenarios.Pick{"victim": {Capacity: "spot", Runs: "coredns"}},
			Probe:  &scenarios.Probe{Fresh: 40, Fixed: 20, Control: 10},
			Settle: strict.Duration(sec(2)),
			Steps: []scenarios.Step{
				{Notice: &scenarios.Notice{Name: "reclaim", Type: "spot-interruption", Nodes: []string{"victim"}}},
				{Reclaim: &scenarios.Reclaim{Node: "victim", At: "reclaim"}},
			},
			Checks: []scenarios.Check{
				Require(NoEviction{}),
				Require(EndpointStays{Node: "victim", AtLeast: strict.Duration(sec(20))}),
				Require(Losses{Of: scenarios.DNS, Mode: "fresh", MinWindow: strict.Duration(sec(20))}),
			},
		},
		meta: history.Meta{Format: history.FormatV1, Scenario: "incident", Set: "fast", Attempt: 1, Handler: history.Handler{Name: "none"}},
	}
	s.arrange()
	until := sec(10)
	s.at(4, history.NewNoticePut("reclaim", "", victim, history.Notice("n-1"), history.Instance("i-a"), history.Until(until)))
	s.at(10, history.NewReclaimed(victim))
	s.at(54, history.NewNodeNotReady(victim, "Unknown"))
	s.at(54, history.NewNodeTainted(victim, "node.kubernetes.io/unreachable", "NoExecute"))
	s.at(54.1, history.NewEndpointNotReady("", "default/coredns-a", "10.0.0.1", history.Conditions{}))
	s.at(60, history.Settle.Begins())
	s.probe(2, 62)
	for i, q := range s.queries {
		if q.Target == history.Service && i%2 == 0 && q.Intended >= sec(10) && q.Intended < sec(54.2) {
			s.queries[i].Outcome = history.Timeout
		}
	}
	s.restore(62.1)
	return s
}

// only keeps one of the scenario's own checks.
func (s *script) only(c scenarios.Check) { s.scenario.Checks = []scenarios.Check{c} }

// expectation is what one check must find in a changed story.
type expectation struct {
	name  string
	edit  func(*script)
	check string
	want  Outcome
	got   string // part of the verdict's Got
	noise bool
}

func (x expectation) run(t *testing.T, play func() *script) {
	t.Helper()
	t.Run(x.name, func(t *testing.T) {
		t.Parallel()
		s := play()
		if x.edit != nil {
			x.edit(s)
		}
		r := s.judge()
		v := named(t, r, x.check)
		if v.Outcome != x.want || !strings.Contains(v.Got, x.got) || v.Noise != x.noise {
			t.Errorf("%s: %s (noise %t), got %q; want %s (noise %t) with %q", v.Check, v.Outcome, v.Noise, v.Got, x.want, x.noise, x.got)
		}
		if v.Want == "" || v.Got == "" {
			t.Errorf("%s does not describe what was wanted and what was seen: %+v", v.Check, v)
		}
		if x.want != Pass && r.Outcome == Pass {
			t.Errorf("%s is %s and the drill passes all the same", v.Check, v.Outcome)
		}
	})
}

func named(t *testing.T, r Result, check string) Verdict {
	t.Helper()
	for _, v := range r.Verdicts {
		if v.Check == check {
			return v
		}
	}
	t.Fatalf("no verdict of check %q in %+v", check, r.Verdicts)
	return Verdict{}
}
