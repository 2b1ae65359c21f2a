package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// budgetStory is a drain of a node with two of three pods, of which three must be
// available, and from +16 on two; an event at +5 reports that it is held up. It
// passes.
func budgetStory() *script {
	s := workloadStory()
	s.scenario.Name, s.meta.Scenario = "budget", "budget"
	s.scenario.Profile = "PDB"
	s.scenario.Checks = []scenarios.Check{
		Require(BudgetKept{NodeNotice: NodeNotice{Node: "victim", Notice: "reclaim"}, Pods: "app"}),
		Require(Resumed{Node: "victim", Budget: "freed", Within: strict.Duration(sec(15))}),
		Require(BlockedReported{NodePods: NodePods{NodeNotice: NodeNotice{Node: "victim", Notice: "reclaim"}, Pods: "app"}}),
	}
	s.drop(func(e history.Event) bool { return e.At >= sec(4.5) })
	s.at(0.4, history.NewBudgetSet("", "app", history.With(history.Numbers{history.MinAvailable: 3})))
	s.workloadPod(1, "app", "app-1", victim, nil)
	s.workloadPod(1, "app", "app-2", victim, nil)
	s.workloadPod(1, "app", "app-3", bystander, nil)
	s.at(4.5, history.NewNodeCordoned(victim))
	s.at(5, history.NewClusterEvent("Node", "EvictionBlocked", history.Node(victim), history.Owner("handler"), history.Note("Pod w/app-1: Cannot evict pod as it would violate the pod's disruption budget.")))
	s.at(16, history.NewBudgetSet("freed", "app", history.With(history.Numbers{history.MinAvailable: 2})))
	s.leaves("app-1", victim, 17, 18, 30)
	s.workloadPod(17.1, "app", "app-4", bystander, nil)
	s.leaves("app-2", victim, 18, 19, 30)
	s.workloadPod(18.1, "app", "app-5", bystander, nil)
	s.at(59, history.Settle.Begins())
	s.restore(64)
	return s
}

// disrupted records that Kubernetes removes a pod for that reason.
func (s *script) disrupted(name, node string, seconds float64, reason string) {
	e := history.NewPodEvicted("w/"+name, "uid-"+name, reason, history.Node(node))
	s.at(seconds, e)
	s.at(seconds, history.NewPodTerminating(e.Pod, e.UID, history.Like(e)))
}

func TestBudgetKept(t *testing.T) {
	expect(t, "budget of app kept", budgetStory, []expectation{
		{name: "kept", want: Pass, got: "never fewer than 2 Ready"},
		{name: "evicted before it was freed", edit: func(s *script) { s.move(of("app-1", history.PodTerminating), 15) }, want: Fail, got: "2 Ready of 3 required, 11.000s after the notice: w/app-1 pod.terminating"},
		{name: "both at once", edit: func(s *script) { s.move(of("app-2", history.PodTerminating), 17.1) }, want: Fail, got: "1 Ready of 2 required"},
		{name: "deleted with no grace", edit: func(s *script) {
			s.drop(of("app-1", history.PodTerminating))
			s.move(of("app-1", history.PodDeleted), 10)
		}, want: Fail, got: "2 Ready of 3 required"},
		{name: "lost with the instance", edit: func(s *script) {
			s.at(10, history.NewReclaimed(victim))
			s.at(11, history.NewPodNotReady("w/app-1", "uid-app-1", history.Node(victim)))
		}, want: Pass},
		{name: "a kubelet stalls", edit: func(s *script) { s.notReady("app-3", bystander, 10); s.ready("app-3", bystander, 12) }, want: Pass, got: "never fewer than 2 Ready; fewer than required only by pods that the drain did not take"},
		{name: "a kubelet stalls after an eviction that used up the budget", edit: func(s *script) {
			s.notReady("app-3", bystander, 17.1)
			s.ready("app-3", bystander, 17.9)
		}, want: Pass, got: "never fewer than 1 Ready; fewer than required only by pods that the drain did not take"},
		{name: "a container ends", edit: func(s *script) {
			s.at(10, history.NewPodExited("w/app-3", "uid-app-3", history.Node(bystander)))
			s.ready("app-3", bystander, 12)
		}, want: Pass},
		{name: "one is preempted", edit: func(s *script) {
			s.disrupted("app-3", bystander, 10, "PreemptionByScheduler")
			s.workloadPod(12, "app", "app-6", bystander, nil)
		}, want: Pass, got: "only by pods that the drain did not take"},
		{name: "a kubelet stalls, and both are taken at once", edit: func(s *script) {
			s.notReady("app-3", bystander, 10)
			s.move(of("app-2", history.PodTerminating), 17.1)
		}, want: Fail, got: "0 Ready of 2 required"},
		{name: "a kubelet stalls, and one is evicted all the same", edit: func(s *script) { s.notReady("app-3", bystander, 16.5) }, want: Unknown, got: "w/app-1 was evicted when 1 others were not Ready for another reason"},
		{name: "a kubelet stalls, and one is deleted all the same", edit: func(s *script) {
			s.notReady("app-3", bystander, 16.5)
			s.drop(of("app-1", history.PodEvicted))
		}, want: Fail, got: "1 Ready of 2 required, 13.000s after the notice: w/app-1 pod.terminating"},
		{name: "one is put out by a taint of the drain", edit: func(s *script) {
			s.drop(of("app-1", history.PodEvicted))
			s.disrupted("app-1", victim, 10, "DeletionByTaintManager")
		}, want: Fail, got: "2 Ready of 3 required, 6.000s after the notice: w/app-1"},
		{name: "one is put out by the taint of another node", edit: func(s *script) {
			s.disrupted("app-3", bystander, 10, "DeletionByTaintManager")
			s.workloadPod(12, "app", "app-6", bystander, nil)
		}, want: Pass},
		{name: "one that was not Ready is evicted", edit: func(s *script) { s.notReady("app-1", victim, 10) }, want: Pass},
		{name: "one that was not Ready is deleted", edit: func(s *script) {
			s.notReady("app-1", victim, 10)
			s.drop(of("app-1", history.PodEvicted))
			s.move(of("app-1", history.PodTerminating), 12)
		}, want: Fail, got: "2 Ready of 3 required, 8.000s after the notice: w/app-1 pod.terminating"},
		{name: "one is preempted and replaced, and then one is evicted", edit: func(s *script) {
			s.disrupted("app-3", bystander, 8, "PreemptionByScheduler")
			s.workloadPod(9, "app", "app-6", bystander, nil)
			s.move(of("app-1", history.PodTerminating), 12)
		}, want: Fail, got: "2 Ready of 3 required, 8.000s after the notice: w/app-1"},
		{name: "another's pods", edit: func(s *script) { s.leaves("slow-a", victim, 5, 6, 30) }, want: Pass},
		{name: "room for all", edit: func(s *script) {
			s.change(history.BudgetSet, func(e *history.Event) { e.Numbers = history.Numbers{history.MinAvailable: 1} })
		}, want: Unknown, got: "room for all 2 pods"},
		{name: "not met before", edit: func(s *script) { s.drop(of("app-3", history.PodReady)) }, want: Unknown, got: "2 were Ready before the notice"},
		{name: "no budget", edit: func(s *script) { s.drop(kind(history.BudgetSet)) }, want: Unknown, got: "shows no budget"},
		{name: "recording ends too soon", edit: cutAt(30), want: Unknown, got: "recording ends there"},
	})
}

func TestResumed(t *testing.T) {
	later := func(seconds float64) func(*script) {
		return func(s *script) {
			s.move(of("app-1", history.PodTerminating), seconds)
			s.move(of("app-2", history.PodTerminating), seconds+1)
			for _, pod := range []string{"app-1", "app-2"} {
				s.move(of(pod, history.PodExited), seconds+2)
				s.move(of(pod, history.PodDeleted), seconds+2)
			}
		}
	}
	expect(t, "drain of victim resumed", budgetStory, []expectation{
		{name: "a second later", want: Pass, got: "w/app-1 began to terminate after 1.000s"},
		{name: "on the edge", edit: later(31), want: Pass},
		{name: "later, unless it was seen late", edit: later(31.1), want: Unknown, got: "after 15.100s: it may have been seen late"},
		{name: "later", edit: later(31.5), want: Fail, got: "only after 15.500s"},
		{name: "all finished by themselves", edit: func(s *script) {
			for _, pod := range []string{"app-1", "app-2"} {
				s.drop(func(e history.Event) bool { return e.Pod == "w/"+pod && e.At > sec(4) })
				s.finishes(pod, victim, 17)
			}
		}, want: Unknown, got: "no pod was waiting"},
		{name: "never", edit: func(s *script) {
			for _, pod := range []string{"app-1", "app-2"} {
				s.drop(of(pod, history.PodTerminating))
				s.drop(of(pod, history.PodDeleted))
			}
		}, want: Fail, got: "no pod began to terminate"},
		{name: "the budget held nothing up", edit: later(6), want: Unknown, got: "no pod was waiting"},
		{name: "not changed", edit: func(s *script) {
			s.drop(func(e history.Event) bool { return e.Kind == history.BudgetSet && e.Step() != "" })
		}, want: Unknown, got: "never changed"},
		{name: "recording ends too soon", edit: func(s *script) { later(40)(s); cutAt(20)(s) }, want: Unknown, got: "recording ends there"},
	})
}

func TestBlockedReported(t *testing.T) {
	report := func(edit func(*history.Event)) func(*script) {
		return func(s *script) { s.change(history.ClusterEvent, edit) }
	}
	stay := func(s *script) {
		for _, pod := range []string{"app-1", "app-2"} {
			s.drop(of(pod, history.PodTerminating))
			s.drop(of(pod, history.PodExited))
			s.drop(of(pod, history.PodDeleted))
		}
	}
	expect(t, "blocked drain of victim reported", budgetStory, []expectation{
		{name: "and left in the end", edit: stay, want: Pass, got: "EvictionBlocked by handler after 1.000s; at the deadline 2 of 2 pods still there"},
		{name: "and taken in the end", want: Pass, got: "0 of 2 pods still there, the first of the others began to terminate 43.000s before it"},
		{name: "on the pod", edit: report(func(e *history.Event) {
			*e = history.NewClusterEvent("Pod", e.KubernetesReason(), history.Like(*e), history.Node(""), history.Pod("w/app-2"), history.Note("blocked by a PDB"))
		}), want: Pass},
		{name: "on the pod, of something else", edit: report(func(e *history.Event) {
			*e = history.NewClusterEvent("Pod", e.KubernetesReason(), history.Like(*e), history.Node(""), history.Pod("w/app-2"), history.Note("still here"))
		}), want: Fail},
		{name: "by the pod's name alone", edit: report(func(e *history.Event) { e.Note = "cannot evict w/app-2" }), want: Pass},
		{name: "on another node", edit: report(func(e *history.Event) { e.Node = bystander }), want: Fail, got: "no event reports it"},
		{name: "of something else", edit: report(func(e *history.Event) { e.Note = "Evicting pods" }), want: Fail},
		{name: "that it is to be evicted", edit: report(func(e *history.Event) {
			*e = history.NewClusterEvent("Node", "Draining", history.Like(*e), history.Note("Evicting pod w/app-1"))
		}), want: Fail, got: "no event reports it"},
		{name: "by Kubernetes", edit: report(func(e *history.Event) { e.Owner = "kubelet" }), want: Fail},
		{name: "not at all", edit: func(s *script) { s.drop(kind(history.ClusterEvent)) }, want: Fail},
		{name: "before the notice", edit: report(func(e *history.Event) { e.At = sec(3) }), want: Fail},
		{name: "after the deadline", edit: report(func(e *history.Event) { e.At = sec(60.1) }), want: Fail},
		{name: "nothing was kept there", edit: func(s *script) {
			stay(s)
			s.drop(func(e history.Event) bool { return e.Pod == "w/app-1" || e.Pod == "w/app-2" })
		}, want: Unknown},
		{name: "and taken before the recording ends", edit: cutAt(20), want: Pass, got: "0 of 2 pods still there"},
		{name: "not at all, and the deadline was not reached", edit: func(s *script) {
			s.drop(kind(history.ClusterEvent))
			cutAt(20)(s)
		}, want: Unknown, got: "the deadline was not seen"},
		{name: "the deadline was not reached, and a pod is still there", edit: func(s *script) {
			s.drop(func(e history.Event) bool { return e.At > sec(17.5) })
			cutAt(17.5)(s)
		}, want: Unknown, got: "the deadline was not seen"},
	})
}
