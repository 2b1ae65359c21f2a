package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// A watch delivers a little late: what it shows just after a limit may have been in time.
func TestChangesOfPodsSeenLate(t *testing.T) {
	gone := func(seconds float64) func(*script) {
		return func(s *script) { s.change(history.PodDeleted, func(e *history.Event) { e.At = sec(seconds) }) }
	}
	another := func(s *script) { // which stays
		s.pod(1, history.PodPresent, "web", victim, "ReplicaSet/web")
	}
	for _, x := range []expectation{
		{name: "gone in time", edit: gone(24), want: Pass},
		{name: "seen gone just after the deadline", edit: gone(24.3), want: Unknown, got: "may have been seen late"},
		{name: "seen gone long after the deadline", edit: gone(24.6), want: Fail, got: "1 of 1 pod still on"},
		{name: "seen gone just after the deadline, and another stays", edit: func(s *script) { gone(24.3)(s); another(s) }, want: Fail, got: "2 of 2 pods still on"},
		{name: "received late, and drained in time since", edit: func(s *script) {
			s.only(Require(Drained{Node: "victim", Notice: "reclaim", Within: strict.Duration(sec(3))}))
			s.change(history.SQSReceived, func(e *history.Event) { e.At = sec(8) })
			polled(s, 3, 8, 1)
		}, want: Pass},
		{name: "received at once, and not drained in time since", edit: func(s *script) {
			s.only(Require(Drained{Node: "victim", Notice: "reclaim", Within: strict.Duration(sec(3))}))
			polled(s, 3, 4.2, 1)
		}, want: Fail},
	} {
		x.check = "drained victim"
		x.run(t, drainStory)
	}
}

// Two watches are in no order while one of them is lost.
func TestNoOrderBetweenWatchesWhileOneIsLost(t *testing.T) {
	lost := func(s *script, watch string) {
		heard := sec(4)
		s.at(4.1, history.NewWatchLost(watch, history.Said(heard)))
		s.at(8, history.NewWatchBack(watch))
	}
	scheduled := func(s *script, seconds float64, node string) {
		s.drop(kind(history.PodScheduled))
		s.pod(seconds, history.PodScheduled, "coredns-b", node, "ReplicaSet/coredns")
	}
	elsewhere := func(s *script) {
		s.pod(9, history.PodCreated, "web", "", "ReplicaSet/web")
		s.pod(9, history.PodScheduled, "web", bystander, "ReplicaSet/web")
	}
	for _, x := range []expectation{
		{name: "the mark was seen late", edit: func(s *script) {
			lost(s, "nodes")
			moveMark(8.1)(s)
			scheduled(s, 7, victim)
			elsewhere(s)
		}, want: Unknown, got: "may have been marked long before"},
		{name: "the binding was seen late", edit: func(s *script) {
			lost(s, "pods")
			scheduled(s, 8.1, victim)
			elsewhere(s)
		}, want: Unknown, got: "may have come before"},
		{name: "the binding was seen late, and was elsewhere", edit: func(s *script) { lost(s, "pods"); scheduled(s, 8.1, bystander) }, want: Pass},
		{name: "bound long after the watch was back", edit: func(s *script) { lost(s, "pods"); scheduled(s, 10, victim) }, want: Fail},
	} {
		x.check = "no pod comes to victim"
		edit := x.edit
		x.edit = func(s *script) {
			s.only(Require(NotScheduled{NodeNotice{Node: "victim", Notice: "reclaim"}}))
			edit(s)
		}
		x.run(t, drainStory)
	}
	for _, x := range []expectation{
		{name: "a pod whose time to stop is known", want: Pass},
		{name: "the end of a pod was seen late", edit: func(s *script) {
			lost(s, "pods")
			s.change(history.PodDeleted, func(e *history.Event) { e.At = sec(8.5) })
		}, want: Unknown, got: "when it had to stop"},
		{name: "the begin of its end was seen late", edit: func(s *script) {
			lost(s, "pods")
			s.drop(func(e history.Event) bool { return e.Kind == history.PodTerminating && e.Node == victim })
			s.pod(8.1, history.PodTerminating, "coredns-a", victim, "ReplicaSet/coredns")
		}, want: Unknown, got: "when it had to stop"},
	} {
		x.check = "grace of dns honoured"
		edit := x.edit
		x.edit = func(s *script) {
			s.only(Require(GraceHonoured{NodePods: NodePods{NodeNotice: NodeNotice{Node: "victim", Notice: "reclaim"}, Pods: "dns"}, AtLeast: strict.Duration(sec(3))}))
			s.change(history.PodPresent, func(e *history.Event) {
				if e.Pod == "default/coredns-a" {
					*e = history.NewPodPresent(e.Pod, e.UID, "dns", e.PodPhase(), history.Like(*e))
				}
			})
			if edit != nil {
				edit(s)
			}
		}
		x.run(t, drainStory)
	}
}
