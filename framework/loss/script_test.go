package loss

import (
	"cmp"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// script is a drill written by hand, to be changed by a test before its losses are attributed.
type script struct {
	scenario scenarios.Scenario
	meta     history.Meta
	events   []history.Event
	queries  []history.Query
	flows    []history.Flow
}

const (
	victim    = "worker-spot-a"
	bystander = "worker-spot-b"
	reserved  = "worker-on-demand"
	ending    = "10.0.0.1" // of default/coredns-a on the victim
	staying   = "10.0.0.2" // of default/coredns-z on the bystander
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

// starve records that a pod had no processor, and how many datagrams its socket dropped.
func (s *script) starve(pod string, from, to, ran float64, dropped int) {
	s.at(to, history.NewProcessorWaited("default/"+pod, history.With(history.Numbers{
		history.Waited: to - from, history.Ran: ran, history.Throttled: 0, history.Resolution: 0.02,
	})))
	if dropped > 0 {
		s.at(to+0.001, history.NewDatagramsDropped("default/"+pod, history.With(history.Numbers{
			history.Dropped: float64(dropped), history.Within: 0.1,
		})))
	}
}

// history puts the events in order and numbers them.
func (s *script) history() history.History {
	h := history.History{
		Meta: s.meta, Events: slices.Clone(s.events), Queries: s.queries, Flows: s.flows, Complete: true,
	}
	slices.SortStableFunc(h.Events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	for i := range h.Events {
		h.Events[i].Seq = i + 1
	}
	return h
}

func (s *script) story() *story.Story { return story.Read(s.scenario, s.history()) }

// attribute finds the causes of what DNS lost.
func (s *script) attribute() *Attribution {
	st := s.story()
	t := DNS(s.scenario)
	return Attribute(st, t, Measure(st, t))
}

// lossStory has two CoreDNS pods that answer; what is lost, and to what, is for a
// test to play. The first one's last answer is to a query of 10 s.
func lossStory() *script {
	s := &script{
		scenario: scenarios.Scenario{Probe: &scenarios.Probe{Fresh: 40, Fixed: 20, Control: 10}},
		meta:     history.Meta{Format: history.FormatV1},
	}
	s.at(0.3, history.Record.Begins())
	for node, capacity := range map[string]string{reserved: "on-demand", victim: "spot", bystander: "spot"} {
		s.at(1, history.NewNodePresent(node, capacity))
	}
	s.pod(1, history.PodPresent, "coredns-a", victim, "ReplicaSet/coredns")
	s.at(1, history.NewEndpointReady("", "default/coredns-a", ending))
	s.at(2, history.Steps.Begins())
	s.at(0.2, history.NewNodeRole("victim", victim, history.Instance("i-a")))
	s.at(0.2, history.NewNodeRole("bystander", bystander, history.Instance("i-b")))
	s.at(1, history.NewPodReady("default/coredns-a", "uid-coredns-a", history.Node(victim), history.IP(ending)))
	s.at(1, history.NewPodReady("default/coredns-z", "uid-coredns-z", history.Node(bystander), history.IP(staying)))
	s.at(1, history.NewEndpointReady("", "default/coredns-z", staying))
	s.at(4, history.NewNoticePut("reclaim", "", victim, history.Notice("n-1"), history.Instance("i-a")))
	s.at(60, history.Restore.Begins())
	s.at(59.9, history.NewFlowsRecorded("", history.With(history.Numbers{history.Resolution: 0.005})))
	s.flow(1, ending, 3, 16)
	s.flow(2, staying, 3, 0)
	s.sent(history.Fixed, 1, 3, history.Answered)
	s.sent(history.Fixed, 1, 9.8, history.Answered)
	s.sent(history.Fixed, 1, 10, history.Answered)
	s.sent(history.Fixed, 2, 14, history.Answered)
	return s
}

// flow is an entry from one second on to another; 0 is the end of the recording.
// One that ends was removed and had been answered.
func (s *script) flow(port int, backend string, from, to float64) {
	s.flows = append(s.flows, history.Flow{Port: port, Backend: backend, From: sec(from), To: sec(to), Removed: to != 0, Replied: to != 0})
}

// insertFailed has the kernel drop packets on the prober's node.
func (s *script) insertFailed(packets float64) {
	s.change(history.FlowsRecorded, func(e *history.Event) { e.Numbers[history.InsertFailed] = packets })
}

// sent is a query that left on time and whose end came after 2 ms, or the
// prober's timeout.
func (s *script) sent(mode history.Mode, port int, at float64, o history.Outcome) {
	done := sec(at) + 2*time.Millisecond
	if o == history.Timeout {
		done = sec(at + 2)
	}
	s.queries = append(s.queries, history.Query{Target: history.Service, Mode: mode, Port: port, Intended: sec(at), Sent: sec(at), Done: done, Outcome: o})
}

// waited is a query of a fixed port whose answer took so long.
func (s *script) waited(port int, at float64, took time.Duration) {
	s.sent(history.Fixed, port, at, history.Answered)
	s.queries[len(s.queries)-1].Done = sec(at) + took
}

func (s *script) ended(kind history.Kind, at float64) {
	e := history.NewPodExited("default/coredns-a", "uid-coredns-a", history.Node(victim), history.IP(ending))
	e.Kind = kind
	s.at(at, e)
}
