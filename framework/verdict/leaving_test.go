package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// blockedStory is a drain that a budget blocks until its instance goes: app-1 and app-2
// stay, and coredns-a leaves.
func blockedStory() *script {
	s := drainStory()
	s.scenario.Probe, s.queries = nil, nil
	s.drop(func(e history.Event) bool { return e.Kind == history.ProberStarted || e.Kind == history.ProberEnded })
	s.scenario.Workload = scenarios.Workload{Replicas: 2, Budgets: []scenarios.Budget{{Pods: "app", MinAvailable: 2}}}
	s.scenario.Checks = nil
	for _, name := range []string{"app-1", "app-2"} {
		s.at(1, history.NewPodPresent("default/"+name, "uid-"+name, "app", "Running", history.Node(victim), history.Owner("ReplicaSet/app")))
	}
	return s
}

func (s *script) reported(seconds float64, note string) {
	s.at(seconds, history.NewClusterEvent("Node", "EvictionBlocked", history.Node(victim), history.Owner("builtin"), history.Note(note)))
}

func TestEventsOfBlockedPodsAreBounded(t *testing.T) {
	const check = "events about blocked app bounded"
	play := func() *script {
		s := blockedStory()
		s.only(Require(EventsBounded{NodePods: NodePods{NodeNotice: NodeNotice{Node: "victim", Notice: "reclaim"}, Pods: "app"}, Max: 3}))
		s.reported(5, "Pod default/app-1: Cannot evict pod as it would violate the pod's disruption budget.")
		s.reported(5, "Pod default/app-2: Cannot evict pod as it would violate the pod's disruption budget.")
		return s
	}
	everySecond := func(s *script) {
		for i := range 15 {
			s.reported(6+float64(i), "Pod default/app-1: Cannot evict pod as it would violate the pod's disruption budget.")
		}
	}
	for _, x := range []expectation{
		{name: "once for each pod", want: Pass, got: "2 events about 2 blocked pods"},
		{"with every attempt", everySecond, "", Fail, "17 events about 2 blocked pods", false},
		{"other events of the handler", func(s *script) {
			for i := range 15 {
				s.at(6+float64(i), history.NewClusterEvent("Node", "Draining", history.Node(victim), history.Owner("builtin"), history.Note("Evicting pods")))
			}
		}, "", Pass, "2 events", false},
		{"not blocked", func(s *script) {
			for _, name := range []string{"app-1", "app-2"} {
				s.pod(6, history.PodTerminating, name, victim, "ReplicaSet/app")
			}
		}, "", Unknown, "no app pod was blocked", false},
	} {
		x.check = check
		x.run(t, play)
	}
	t.Run("no other check finds it", func(t *testing.T) {
		s := play()
		everySecond(s)
		missedBefore(t, s, check)
	})
}

func TestEveryPodIsAskedToTerminate(t *testing.T) {
	const check = "every pod of victim asked to terminate"
	play := func() *script {
		s := blockedStory()
		s.only(Require(Drained{Node: "victim", Notice: "reclaim", Terminating: true}))
		for _, name := range []string{"app-1", "app-2"} {
			s.pod(8, history.PodEvicted, name, victim, "ReplicaSet/app")
			s.pod(8, history.PodTerminating, name, victim, "ReplicaSet/app")
		}
		s.at(7, history.NewNodeNotReady(victim, "Unknown"))
		return s
	}
	forgotten := func(s *script) {
		s.drop(func(e history.Event) bool { return e.Pod == "default/app-2" && e.Kind != history.PodPresent })
	}
	for _, x := range []expectation{
		{name: "asked, though none can end", want: Pass, got: "all 3 began to terminate after 4.000s"},
		{"one is not", forgotten, "", Fail, "1 of 3 never began to terminate: default/app-2", false},
		{"it had finished", func(s *script) {
			forgotten(s)
			s.at(9, history.NewPodFinished("default/app-2", "uid-app-2", "Succeeded", history.Node(victim)))
		}, "", Pass, "all 3", false},
		{"the recording ends before the deadline", func(s *script) {
			forgotten(s)
			s.at(20, history.NewRunError("x"))
		}, "", Unknown, "the recording ends there", false},
	} {
		x.check = check
		x.run(t, play)
	}
	t.Run("no other check finds it", func(t *testing.T) {
		s := play()
		forgotten(s)
		missedBefore(t, s, check)
	})
}

func TestFinalizersAreHonoured(t *testing.T) {
	const check = "finalizers of finalizer honoured"
	play := func() *script {
		s := blockedStory()
		s.scenario.Workload.Pods = []scenarios.Pods{{Kind: "finalizer", Node: "victim"}}
		s.scenario.Steps = s.scenario.Steps[:1]
		s.drop(kind(history.Reclaimed))
		s.only(Require(FinalizersHonoured{NodePods: NodePods{NodeNotice: NodeNotice{Node: "victim", Notice: "reclaim"}, Pods: "finalizer"}}))
		s.at(1, history.NewPodPresent("default/finalizer", "uid-finalizer", "finalizer", "Running", history.Node(victim)))
		s.pod(5, history.PodEvicted, "finalizer", victim, "")
		s.pod(5, history.PodTerminating, "finalizer", victim, "")
		s.pod(6, history.PodExited, "finalizer", victim, "")
		for i := range s.events {
			if e := &s.events[i]; e.At > sec(24.1) {
				e.At += sec(15)
			}
		}
		return s
	}
	removed := func(s *script) { s.pod(7, history.PodDeleted, "finalizer", victim, "") }
	for _, x := range []expectation{
		{name: "evicted and there", want: Pass, got: "1 evicted and still there"},
		{"gone", removed, "", Fail, "is gone from the API", false},
		{"never evicted", func(s *script) {
			s.drop(func(e history.Event) bool { return e.UID == "uid-finalizer" && e.Kind != history.PodPresent })
		}, "", Fail, "was never evicted", false},
		{"none there", func(s *script) { s.drop(func(e history.Event) bool { return e.UID == "uid-finalizer" }) }, "", Unknown, "no finalizer pod was on", false},
	} {
		x.check = check
		x.run(t, play)
	}
	t.Run("no other check finds it", func(t *testing.T) {
		s := play()
		removed(s)
		missedBefore(t, s, check)
	})
}
