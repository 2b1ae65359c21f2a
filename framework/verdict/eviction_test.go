package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// workloadPod records a pod of the workload that goes by the name: its first
// event, and that it became Ready.
func (s *script) workloadPod(seconds float64, group, name, node string, numbers history.Numbers) {
	all := history.Numbers{history.Grace: 30, history.Priority: 0}
	for k, v := range numbers {
		all[k] = v
	}
	e := history.NewPodCreated("w/"+name, "uid-"+name, group, history.Node(node), history.Owner("ReplicaSet/"+group), history.With(all))
	if seconds <= 2 {
		s.at(seconds, history.NewPodPresent(e.Pod, e.UID, group, "Running", history.Like(e)))
	} else {
		e.Node = ""
		s.at(seconds, e)
		s.at(seconds+0.1, history.NewPodScheduled(e.Pod, e.UID, history.Node(node), history.Owner(e.Owner)))
	}
	s.at(seconds+0.2, history.NewPodReady(e.Pod, e.UID, history.Node(node), history.Owner(e.Owner)))
}

// leaves records how a pod is evicted with that grace, and is gone.
func (s *script) leaves(name, node string, terminating, gone, grace float64) {
	pod, uid, on := "w/"+name, "uid-"+name, history.Node(node)
	s.at(terminating, history.NewPodEvicted(pod, uid, "EvictionByEvictionAPI", on))
	s.at(terminating, history.NewPodTerminating(pod, uid, on, history.With(history.Numbers{history.Grace: grace})))
	s.at(gone, history.NewPodExited(pod, uid, on))
	s.at(gone+0.1, history.NewPodDeleted(pod, uid, on))
}

// notReady records that a pod fails its readiness probe.
func (s *script) notReady(name, node string, seconds float64) {
	s.at(seconds, history.NewPodNotReady("w/"+name, "uid-"+name, history.Node(node)))
}

// ready records that a pod is Ready again.
func (s *script) ready(name, node string, seconds float64) {
	s.at(seconds, history.NewPodReady("w/"+name, "uid-"+name, history.Node(node)))
}

// finishes records that a pod's containers end by themselves.
func (s *script) finishes(name, node string, seconds float64) {
	e := history.NewPodExited("w/"+name, "uid-"+name, history.Node(node))
	s.at(seconds, e)
	s.at(seconds, history.NewPodFinished(e.Pod, e.UID, "Succeeded", history.Like(e)))
}

// job adds a pod that finishes by itself while the others are drained.
func job(s *script) {
	s.workloadPod(1, "job", "job-a", victim, nil)
	s.finishes("job-a", victim, 7)
}

// of selects the events of a kind about a pod of the workload.
func of(name string, k history.Kind) func(history.Event) bool {
	return func(e history.Event) bool { return e.Pod == "w/"+name && e.Kind == k }
}

// move has events happen at another time.
func (s *script) move(ok func(history.Event) bool, seconds float64) {
	for i := range s.events {
		if ok(s.events[i]) {
			s.events[i].At = sec(seconds)
		}
	}
}

// workloadStory is a drain of a node with a slow, a critical and a static pod and
// two that ignore SIGTERM, by a notice at +4 with a deadline at +60. It passes.
func workloadStory() *script {
	s := &script{
		scenario: scenarios.Scenario{
			Name: "workload", Title: "A drain of many kinds", Profile: "SPOT",
			Nodes:  map[string]scenarios.Pick{"victim": {Capacity: "spot"}},
			Settle: strict.Duration(sec(5)),
			Steps:  []scenarios.Step{{Notice: &scenarios.Notice{Name: "reclaim", Type: "spot-interruption", Nodes: []string{"victim"}}}},
			Checks: []scenarios.Check{
				Require(Drained{Node: "victim", Notice: "reclaim", Pods: "slow"}),
				Require(NotScheduled{NodeNotice{Node: "victim", Notice: "reclaim"}}),
				Require(Replaced{NodeNotice{Node: "victim", Notice: "reclaim"}}),
				Require(GraceHonoured{NodePods: NodePods{NodeNotice: NodeNotice{Node: "victim", Notice: "reclaim"}, Pods: "slow"}, AtLeast: strict.Duration(sec(20))}),
				Require(NotStalled{NodePods: NodePods{NodeNotice: NodeNotice{Node: "victim", Notice: "reclaim"}, Pods: "deaf"}}),
				Require(CriticalLast{NodeNotice{Node: "victim", Notice: "reclaim"}}),
				Require(NoEviction{Node: "victim", Pods: "static"}),
				Require(NoEviction{Node: "victim", Pods: "tolerating"}),
			},
		},
		meta: history.Meta{
			Format: history.FormatV1, Scenario: "workload", Set: "fast", Attempt: 1,
			Handler: history.Handler{Name: "builtin", Version: "1", Unschedulable: true, Taint: "example.com/disrupted"},
		},
	}
	s.arrange()
	s.drop(func(e history.Event) bool { return e.Pod == "default/coredns-a" })
	s.workloadPod(1, "slow", "slow-a", victim, nil)
	s.workloadPod(1, "deaf", "deaf-0", victim, history.Numbers{history.Grace: 10})
	s.workloadPod(1, "deaf", "deaf-1", victim, history.Numbers{history.Grace: 10})
	s.workloadPod(1, "critical", "critical-a", victim, history.Numbers{history.Priority: 2_000_000_000})
	s.workloadPod(1, "tolerating", "tolerating-a", victim, history.Numbers{history.ToleratesDrain: 1})
	s.at(1, history.NewPodPresent("w/static-a", "uid-static-a", "static", "Running", history.Node(victim), history.Owner("Node/"+victim)))
	until := sec(60)
	s.at(4, history.NewNoticePut("reclaim", "", victim, history.Notice("n-1"), history.Instance("i-a"), history.Until(until)))
	s.at(4.5, history.NewNodeCordoned(victim))
	s.leaves("slow-a", victim, 5, 25.5, 30)
	s.leaves("deaf-0", victim, 5, 15.5, 10)
	s.leaves("deaf-1", victim, 5.1, 15.6, 10)
	s.workloadPod(5.2, "slow", "slow-b", bystander, nil)
	s.workloadPod(5.4, "deaf", "deaf-2", bystander, nil)
	s.workloadPod(5.5, "deaf", "deaf-3", bystander, nil)
	s.leaves("critical-a", victim, 26, 27, 30)
	s.workloadPod(26.2, "critical", "critical-b", bystander, history.Numbers{history.Priority: 2_000_000_000})
	s.at(28, history.Settle.Begins())
	s.restore(38.1)
	return s
}

// cutAt cuts the story short: what was not seen by then is not known.
func cutAt(seconds float64) func(*script) {
	return func(s *script) { s.at(seconds, history.NewRunError("x")) }
}

// expect runs the table against one check of the story.
func expect(t *testing.T, name string, play func() *script, table []expectation) {
	t.Helper()
	for _, x := range table {
		x.check = name
		x.run(t, play)
	}
}

func TestDrainedOfSomePods(t *testing.T) {
	expect(t, "drained victim of slow", workloadStory, []expectation{
		{name: "these are gone", want: Pass, got: "1 pod gone"},
		{name: "others are not", edit: func(s *script) { s.drop(of("deaf-0", history.PodDeleted)) }, want: Pass},
		{name: "these are not", edit: func(s *script) { s.drop(of("slow-a", history.PodDeleted)); s.restoreAt(70) }, want: Fail, got: "w/slow-a"},
		{name: "none was there", edit: func(s *script) { s.drop(func(e history.Event) bool { return e.Pod == "w/slow-a" }) }, want: Unknown},
	})
}

// restoreAt has the drill go on until then.
func (s *script) restoreAt(seconds float64) {
	s.drop(func(e history.Event) bool { return e.At >= sec(33) })
	s.restore(seconds)
}

func TestNotScheduled(t *testing.T) {
	comes := func(name string, seconds float64, owner string) func(*script) {
		return func(s *script) {
			s.workloadPod(seconds, name, name+"-x", victim, nil)
			s.change(history.PodCreated, func(e *history.Event) {
				if e.Pod == "w/"+name+"-x" {
					e.Owner = owner
				}
			})
		}
	}
	expect(t, "no pod comes to victim", workloadStory, []expectation{
		{name: "none came", want: Pass, got: "4 pods bound elsewhere"},
		{name: "one came back", edit: comes("slow", 6, "ReplicaSet/slow"), want: Fail, got: "1 pod came to " + victim + ", the first w/slow-x 1.600s"},
		{name: "before the mark", edit: comes("slow", 4.2, "ReplicaSet/slow"), want: Pass},
		{name: "the scheduler had decided already", edit: comes("slow", 4.6, "ReplicaSet/slow"), want: Pass},
		{name: "the scheduler had decided already, and the watches show it late", edit: comes("slow", 5.1, "ReplicaSet/slow"), want: Pass},
		{name: "a second later it should have known", edit: comes("slow", 5.41, "ReplicaSet/slow"), want: Fail, got: "1.010s after the mark"},
		{name: "a daemon pod came", edit: comes("agent", 6, "DaemonSet/agent"), want: Pass},
		{name: "not marked", edit: func(s *script) { s.drop(kind(history.NodeCordoned)) }, want: Unknown, got: "was not marked"},
		{name: "marked by Kubernetes only", edit: func(s *script) {
			s.change(history.NodeCordoned, func(e *history.Event) {
				*e = history.NewNodeTainted(e.Node, "node.kubernetes.io/unschedulable", "", history.Like(*e))
			})
		}, want: Unknown, got: "was not marked"},
		{name: "no pod came anywhere", edit: func(s *script) { s.drop(kind(history.PodScheduled)) }, want: Unknown, got: "proves nothing"},
		{name: "recording ends too soon", edit: cutAt(20), want: Unknown, got: "recording ends there"},
	})
}

func TestReplaced(t *testing.T) {
	expect(t, "pods of victim replaced", workloadStory, []expectation{
		{name: "all", want: Pass, got: "4 pods Ready elsewhere after 22.400s"},
		{name: "one that finished needs no replacement", edit: job, want: Pass, got: "4 pods Ready"},
		{name: "one of two", edit: func(s *script) { s.drop(of("deaf-3", history.PodReady)); s.restoreAt(70) }, want: Fail, got: "ReplicaSet/deaf"},
		{name: "after the deadline", edit: func(s *script) { s.move(of("slow-b", history.PodReady), 61); s.restoreAt(70) }, want: Fail, got: "ReplicaSet/slow"},
		{name: "on the same node", edit: func(s *script) {
			for i, e := range s.events {
				if e.Pod == "w/slow-b" {
					s.events[i].Node = victim
				}
			}
			s.restoreAt(70)
		}, want: Fail, got: "ReplicaSet/slow"},
		{name: "by one that was there before", edit: func(s *script) {
			s.drop(func(e history.Event) bool { return e.Pod == "w/slow-b" })
			s.workloadPod(1, "slow", "slow-0", bystander, nil)
			s.restoreAt(70)
		}, want: Fail, got: "ReplicaSet/slow"},
		{name: "by one that was evicted again", edit: func(s *script) { s.leaves("slow-b", bystander, 7, 8, 30); s.restoreAt(70) }, want: Fail, got: "ReplicaSet/slow"},
		{name: "by one that was evicted again, and another", edit: func(s *script) {
			s.leaves("slow-b", bystander, 7, 8, 30)
			s.workloadPod(7.5, "slow", "slow-c", bystander, nil)
			s.restoreAt(70)
		}, want: Pass},
		{name: "by one that is no longer Ready", edit: func(s *script) { s.restoreAt(70); s.notReady("slow-b", bystander, 40) }, want: Fail, got: "ReplicaSet/slow"},
		{name: "by one that is Ready again", edit: func(s *script) {
			s.restoreAt(70)
			s.notReady("slow-b", bystander, 40)
			s.ready("slow-b", bystander, 50)
		}, want: Pass, got: "after 46.000s"},
		{name: "by one that was evicted after the deadline", edit: func(s *script) { s.restoreAt(70); s.leaves("slow-b", bystander, 61, 62, 30) }, want: Pass},
		{name: "by one that was evicted again, and the drill ended", edit: func(s *script) { s.leaves("slow-b", bystander, 7, 8, 30) }, want: Unknown, got: "recording ends there"},
		{name: "the drill ended before", edit: func(s *script) { s.drop(of("deaf-3", history.PodReady)) }, want: Unknown, got: "recording ends there"},
		{name: "by pods of no controller", edit: func(s *script) {
			for i := range s.events {
				s.events[i].Owner = ""
			}
		}, want: Unknown, got: "no pod of a controller"},
		{name: "no deadline", edit: func(s *script) { s.change(history.NoticePut, func(e *history.Event) { e.Until = nil }) }, want: Unknown},
	})
}

func TestGraceHonoured(t *testing.T) {
	grace := func(seconds float64) func(*script) {
		return func(s *script) {
			s.change(history.PodTerminating, func(e *history.Event) {
				if e.Pod == "w/slow-a" {
					e.Numbers = history.Numbers{history.Grace: seconds}
				}
			})
		}
	}
	expect(t, "grace of slow honoured", workloadStory, []expectation{
		{name: "all of it", want: Pass, got: "1 pod had 20.500s or more"},
		{name: "more than its own", edit: grace(60), want: Pass},
		{name: "less than its own", edit: grace(5), want: Fail, got: "given 5 s of its 30 s"},
		{name: "cut short later", edit: func(s *script) {
			s.at(10, history.NewPodTerminating("w/slow-a", "uid-slow-a", history.Node(victim), history.With(history.Numbers{history.Grace: 1})))
		}, want: Fail, got: "given 1 s of its 30 s"},
		{name: "let go by its kubelet once it had stopped", edit: func(s *script) {
			s.at(25.55, history.NewPodTerminating("w/slow-a", "uid-slow-a", history.Node(victim), history.With(history.Numbers{history.Grace: 0})))
		}, want: Pass},
		{name: "stopped before it was done", edit: func(s *script) { s.move(of("slow-a", history.PodExited), 15) }, want: Fail, got: "had 10.000s to stop"},
		{name: "the instance went first", edit: func(s *script) { s.at(20, history.NewReclaimed(victim)) }, want: Fail, got: "had 15.000s"},
		{name: "another finished by itself", edit: func(s *script) {
			s.workloadPod(1, "slow", "slow-0", victim, nil)
			s.finishes("slow-0", victim, 7)
		}, want: Pass, got: "1 pod had"},
		{name: "never began to terminate", edit: func(s *script) {
			s.drop(of("slow-a", history.PodTerminating))
			s.at(36, history.NewReclaimed(victim))
		}, want: Fail, got: "never began to terminate"},
		{name: "never began to terminate, and the drill ended before the deadline", edit: func(s *script) { s.drop(of("slow-a", history.PodTerminating)) }, want: Unknown, got: "recording ends there"},
		{name: "recording ends too soon", edit: func(s *script) {
			s.drop(of("slow-a", history.PodExited))
			s.drop(of("slow-a", history.PodDeleted))
			cutAt(20)(s)
		}, want: Unknown, got: "recording ends there"},
		{name: "none was there", edit: func(s *script) { s.drop(func(e history.Event) bool { return e.Pod == "w/slow-a" }) }, want: Unknown},
	})
}

func TestNotStalled(t *testing.T) {
	terminating := func(pod string, seconds float64) func(*script) {
		return func(s *script) { s.move(of(pod, history.PodTerminating), seconds) }
	}
	expect(t, "not stalled by deaf", workloadStory, []expectation{
		{name: "all at once", want: Pass, got: "all 3 began to terminate after 1.100s"},
		{name: "another waits for it", edit: terminating("slow-a", 15.6), want: Fail, got: "w/slow-a had not begun to terminate by 11.500s"},
		{name: "they wait for each other", edit: terminating("deaf-1", 15.6), want: Fail, got: "w/deaf-1"},
		{name: "another never begins to terminate", edit: func(s *script) { s.drop(of("slow-a", history.PodTerminating)) }, want: Fail, got: "w/slow-a"},
		{name: "another finishes by itself", edit: job, want: Pass, got: "all 3 began"},
		{name: "another finishes by itself when the first is gone", edit: func(s *script) {
			s.workloadPod(1, "job", "job-a", victim, nil)
			s.finishes("job-a", victim, 15.6)
		}, want: Fail, got: "w/job-a"},
		{name: "critical ones may wait", edit: terminating("critical-a", 30), want: Pass},
		{name: "no other was there", edit: func(s *script) { s.drop(func(e history.Event) bool { return e.Pod == "w/slow-a" }) }, want: Unknown, got: "2 deaf pods and 0 others"},
		{name: "recording ends too soon", edit: func(s *script) { terminating("slow-a", 15.6)(s); cutAt(10)(s) }, want: Unknown, got: "recording ends there"},
	})
}

func TestCriticalLast(t *testing.T) {
	terminating := func(seconds float64) func(*script) {
		return func(s *script) { s.move(of("critical-a", history.PodTerminating), seconds) }
	}
	shutDown := func(seconds float64) func(*script) {
		return func(s *script) {
			s.drop(of("critical-a", history.PodTerminating))
			s.at(seconds, history.NewPodSignalled("w/critical-a", "uid-critical-a", history.Node(victim)))
		}
	}
	expect(t, "critical pods of victim last", workloadStory, []expectation{
		{name: "last", want: Pass, got: "1 began to terminate after 3 others"},
		{name: "with the others", edit: terminating(5), want: Fail, got: "w/critical-a began to terminate at +5.000s, when w/slow-a had not stopped"},
		{name: "while one still stops", edit: terminating(25.4), want: Fail, got: "w/slow-a"},
		{name: "when the last has ended, and is still in the API", edit: terminating(25.55), want: Pass},
		{name: "never", edit: func(s *script) { s.drop(of("critical-a", history.PodTerminating)) }, want: Unknown, got: "no critical pod began"},
		{name: "SIGTERM at a shutdown, last", edit: shutDown(25.7), want: Pass, got: "1 began to terminate after 3 others"},
		{name: "SIGTERM at a shutdown, logged before the last exit was reported", edit: shutDown(24.5), want: Pass},
		{name: "SIGTERM at a shutdown, while one still stops", edit: shutDown(23), want: Fail, got: "w/slow-a"},
		{name: "SIGTERM at a shutdown, with the others", edit: shutDown(5), want: Fail, got: "w/critical-a began to terminate at +5.000s, when w/slow-a had not stopped"},
		{name: "one never stops", edit: func(s *script) {
			s.drop(of("slow-a", history.PodExited))
			s.drop(of("slow-a", history.PodDeleted))
		}, want: Fail, got: "w/slow-a"},
		{name: "those that stay do not count", edit: func(s *script) { s.leaves("tolerating-a", victim, 5, 29, 30) }, want: Pass},
		{name: "none was there", edit: func(s *script) { s.drop(func(e history.Event) bool { return e.Pod == "w/critical-a" }) }, want: Unknown},
	})
}

func TestPodsLeft(t *testing.T) {
	expect(t, "static pods left on victim", workloadStory, []expectation{
		{name: "left", want: Pass, got: "1 static pods left alone"},
		{name: "its mirror deleted", edit: func(s *script) { s.leaves("static-a", victim, 5, 5.1, 30) }, want: Fail, got: "1 of 1 static pods taken"},
		{name: "gone with the instance", edit: func(s *script) {
			s.at(28, history.NewReclaimed(victim))
			s.leaves("static-a", victim, 29, 29.1, 30)
		}, want: Pass},
		{name: "none was there", edit: func(s *script) { s.drop(func(e history.Event) bool { return e.Pod == "w/static-a" }) }, want: Unknown, got: "no static pod"},
		{name: "recording ends too soon", edit: cutAt(20), want: Unknown, got: "recording ends there"},
	})
	expect(t, "tolerating pods left on victim", workloadStory, []expectation{
		{name: "left", want: Pass},
		{name: "evicted", edit: func(s *script) { s.leaves("tolerating-a", victim, 5, 6, 30) }, want: Fail, got: "pod.evicted"},
	})
}
