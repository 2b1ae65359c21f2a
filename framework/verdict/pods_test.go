package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

func podDeleted(e history.Event) bool { return e.Kind == history.PodDeleted }

// moveDeletion has the evicted pod go at another time.
func moveDeletion(seconds float64) func(*script) {
	return func(s *script) { s.change(history.PodDeleted, func(e *history.Event) { e.At = sec(seconds) }) }
}

func TestDrained(t *testing.T) {
	within := func(seconds float64) func(*script) {
		return func(s *script) {
			s.only(Require(Drained{Node: "victim", Notice: "reclaim", Within: strict.Duration(sec(seconds))}))
		}
	}
	comes := func(seconds float64) func(*script) {
		return func(s *script) {
			s.pod(4.6, history.PodCreated, "later", "", "ReplicaSet/web")
			s.pod(seconds, history.PodScheduled, "later", victim, "ReplicaSet/web")
		}
	}
	tolerant := func(taints string) func(*script) {
		return func(s *script) {
			s.at(1, history.NewPodPresent("default/tolerant", "uid-tolerant", "", "Running", history.Node(victim), history.Owner("ReplicaSet/x"), history.Note(taints)))
		}
	}
	for _, x := range []expectation{
		{name: "drained", want: Pass, got: "1 pod gone"},
		{name: "on the edge of within", edit: within(6), want: Pass},
		{name: "later than within", edit: within(5.4), want: Fail, got: "1 of 1 pod still on " + victim + " 5.400s"},
		{name: "never", edit: func(s *script) { s.drop(podDeleted) }, want: Fail, got: "default/coredns-a"},
		{name: "after the deadline", edit: func(s *script) { s.drop(kind(history.Reclaimed)); moveDeletion(24.6)(s) }, want: Fail},
		{name: "taken before the deadline", edit: func(s *script) {
			s.change(history.Reclaimed, func(e *history.Event) { e.At = sec(9) })
		}, want: Fail},
		{name: "one of two", edit: func(s *script) { s.pod(1, history.PodPresent, "web", victim, "ReplicaSet/web") }, want: Fail, got: "1 of 2"},
		{name: "a finished pod stays", edit: func(s *script) {
			s.at(1, history.NewPodPresent("default/job", "uid-job", "", "Succeeded", history.Node(victim), history.Owner("Job/job")))
		}, want: Pass},
		{name: "a pod that finishes during the drain stays", edit: func(s *script) {
			s.pod(1, history.PodPresent, "job", victim, "Job/job")
			s.at(7, history.NewPodFinished("default/job", "uid-job", "Succeeded", history.Node(victim), history.Owner("Job/job")))
		}, want: Pass, got: "2 pods gone"},
		{name: "a pod that finishes after the deadline stays", edit: func(s *script) {
			s.pod(1, history.PodPresent, "job", victim, "Job/job")
			s.at(24.6, history.NewPodFinished("default/job", "uid-job", "Succeeded", history.Node(victim), history.Owner("Job/job")))
		}, want: Fail, got: "default/job"},
		{name: "a pod that had finished before the notice stays", edit: func(s *script) {
			s.pod(1, history.PodPresent, "job", victim, "Job/job")
			s.at(3, history.NewPodFinished("default/job", "uid-job", "Failed", history.Node(victim), history.Owner("Job/job")))
		}, want: Pass, got: "1 pod gone"},
		{name: "a pod that its kubelet put out stays", edit: func(s *script) {
			s.pod(1, history.PodPresent, "big", victim, "ReplicaSet/big")
			s.at(7, history.NewPodEvicted("default/big", "uid-big", "TerminationByKubelet", history.Node(victim)))
			s.at(7, history.NewPodFinished("default/big", "uid-big", "Failed", history.Node(victim)))
		}, want: Pass, got: "2 pods gone"},
		{name: "an evicted pod finishes and is never gone", edit: func(s *script) {
			s.drop(podDeleted)
			s.pod(9, history.PodFinished, "coredns-a", victim, "ReplicaSet/coredns")
		}, want: Fail, got: "default/coredns-a"},
		{name: "a pod that tolerates the handler's taint stays", edit: tolerant("example.com/gpu,example.com/disrupted"), want: Pass, got: "1 pod gone"},
		{name: "a pod that tolerates every taint stays", edit: tolerant("*"), want: Pass, got: "1 pod gone"},
		{name: "a pod that tolerates another taint stays", edit: tolerant("example.com/gpu"), want: Fail, got: "default/tolerant"},
		{name: "a pod that tolerates some taint of a handler that has none stays", edit: func(s *script) {
			s.meta.Handler.Taint = ""
			tolerant("")(s)
		}, want: Fail, got: "default/tolerant"},
		{name: "a pod that came before the notice stays", edit: func(s *script) {
			s.pod(3, history.PodCreated, "late", "", "ReplicaSet/web")
			s.pod(3.1, history.PodScheduled, "late", victim, "ReplicaSet/web")
		}, want: Fail, got: "default/late"},
		{name: "a pod that came before the mark stays", edit: func(s *script) {
			s.pod(4.1, history.PodCreated, "later", "", "ReplicaSet/web")
			s.pod(4.2, history.PodScheduled, "later", victim, "ReplicaSet/web")
		}, want: Fail, got: "default/later"},
		{name: "a pod that was bound when the handler marked the node stays", edit: comes(4.7), want: Fail, got: "default/later"},
		{name: "a pod that was bound when the handler marked the node leaves", edit: func(s *script) {
			comes(4.7)(s)
			s.pod(9, history.PodDeleted, "later", victim, "ReplicaSet/web")
		}, want: Pass, got: "2 pods gone"},
		{name: "a pod that came long after the mark stays", edit: comes(5.5), want: Pass},
		{name: "a pod of the same name came back", edit: func(s *script) {
			s.at(11, history.NewPodCreated("default/coredns-a", "another", "", history.Node(bystander), history.Owner("StatefulSet/x")))
		}, want: Pass},
		{name: "nothing to drain", edit: func(s *script) {
			s.drop(func(e history.Event) bool { return e.Pod == "default/coredns-a" })
		}, want: Unknown, got: "an empty node proves nothing"},
		{name: "gone before the notice", edit: moveDeletion(3), want: Unknown, got: "an empty node proves nothing"},
		{name: "no deadline", edit: func(s *script) { s.change(history.NoticePut, func(e *history.Event) { e.Until = nil }) }, want: Unknown, got: "without a deadline"},
		{name: "recording ends too soon", edit: func(s *script) {
			s.drop(podDeleted)
			s.at(20, history.NewRunError("x"))
		}, want: Unknown, got: "recording ends there"},
		{name: "notice never put", edit: func(s *script) { s.drop(kind(history.NoticePut)) }, want: Unknown, got: "never put"},
	} {
		x.check = "drained victim"
		x.run(t, drainStory)
	}
}

func TestDrainedCountsPods(t *testing.T) {
	v := named(t, drainStory().judge(), "drained victim")
	for name, want := range map[string]float64{"pods": 1, "evicted": 1, "left": 0, "drained_seconds": 6} {
		if v.Numbers[name] != want {
			t.Errorf("%s is %g, want %g", name, v.Numbers[name], want)
		}
	}
}

func TestDaemonPodsLeft(t *testing.T) {
	daemon := func(seconds float64, k history.Kind) func(*script) {
		return func(s *script) { s.pod(seconds, k, "proxy-"+victim, victim, "DaemonSet/kube-proxy") }
	}
	nodeDeleted := func(deletesNode bool) func(*script) {
		return func(s *script) {
			s.meta.Handler.DeletesNode = deletesNode
			s.at(15, history.NewNodeDeleted(victim))
			daemon(16, history.PodDeleted)(s)
		}
	}
	for _, x := range []expectation{
		{name: "left alone", want: Pass, got: "1 daemon pods"},
		{name: "evicted", edit: daemon(8, history.PodEvicted), want: Fail, got: "pod.evicted"},
		{name: "terminating", edit: daemon(8, history.PodTerminating), want: Fail},
		{name: "deleted", edit: daemon(8, history.PodDeleted), want: Fail},
		{name: "deleted after the instance was taken", edit: daemon(24.5, history.PodDeleted), want: Pass},
		{name: "deleted although the instance stays", edit: func(s *script) {
			s.drop(kind(history.Reclaimed))
			daemon(24.5, history.PodDeleted)(s)
		}, want: Fail},
		{name: "collected with a node that the handler deletes", edit: nodeDeleted(true), want: Pass},
		{name: "collected with a node that is not the handler's to delete", edit: nodeDeleted(false), want: Fail},
		{name: "no daemon pods", edit: func(s *script) {
			s.drop(func(e history.Event) bool { return e.Pod == "default/proxy-"+victim })
		}, want: Unknown},
		{name: "recording ends too soon", edit: func(s *script) { s.at(20, history.NewRunError("x")) }, want: Unknown, got: "recording ends there"},
		{name: "no role", edit: func(s *script) { s.drop(kind(history.NodeRole)) }, want: Unknown},
	} {
		x.check = "daemon pods left on victim"
		x.run(t, drainStory)
	}
}

// workloadPod is one of the drill's own on the bystander.
func workloadPod(s *script, owner string) {
	s.scenario.Workload.Replicas = 1
	s.pod(1, history.PodPresent, "web", bystander, owner)
	last := &s.events[len(s.events)-1]
	*last = history.NewPodPresent(last.Pod, last.UID, scenarios.App, last.PodPhase(), history.Like(*last))
}

// deletes has a pod of the workload deleted without an eviction; reason is what
// Kubernetes reports of it, if anything.
func deletes(owner, reason string) func(*script) {
	return func(s *script) {
		workloadPod(s, owner)
		s.pod(8, history.PodTerminating, "web", bystander, owner)
		if reason != "" {
			s.at(8, history.NewPodEvicted("default/web", "uid-web", reason, history.Node(bystander)))
		}
	}
}

// took has the API server's audit log report, at the end, that the handler asked for a
// pod's deletion.
func (s *script) took(seconds float64, pod string) {
	said := sec(seconds)
	s.at(28, history.NewHandlerTook("", pod, history.Action("delete"), history.Said(said)))
	s.at(28, history.NewAuditRead(""))
}

func TestNoEviction(t *testing.T) {
	evicted := func(reason string) func(*script) {
		return func(s *script) {
			s.at(8, history.NewPodEvicted("default/coredns-a", "uid-coredns-a", reason, history.Node(victim)))
		}
	}
	for _, x := range []expectation{
		{name: "none", want: Pass},
		{name: "one", edit: evicted("EvictionByEvictionAPI"), want: Fail},
		{name: "by the node controller", edit: evicted("DeletionByTaintManager"), want: Pass},
		{name: "one of the workload deleted", edit: deletes("ReplicaSet/web", ""), want: Fail, got: "pod.terminating"},
		{name: "one deleted by the node controller", edit: deletes("ReplicaSet/web", "DeletionByTaintManager"), want: Pass},
		{name: "a daemon pod deleted", edit: deletes("DaemonSet/web", ""), want: Pass},
		{name: "a daemon pod deleted by the handler", edit: func(s *script) {
			s.meta.Handler.Name = "builtin"
			deletes("DaemonSet/web", "")(s)
			s.took(7.9, "default/web")
		}, want: Fail, got: "pod.terminating"},
		{name: "a daemon pod deleted by somebody else", edit: func(s *script) {
			s.meta.Handler.Name = "builtin"
			deletes("DaemonSet/web", "")(s)
			s.at(50, history.NewAuditRead(""))
		}, want: Pass},
		{name: "a daemon pod deleted, and no audit log", edit: func(s *script) {
			s.meta.Handler.Name = "builtin"
			deletes("DaemonSet/web", "")(s)
		}, want: Unknown, got: "pod.terminating; the history does not show by whom"},
		{name: "one of the workload deleted at once", edit: func(s *script) {
			workloadPod(s, "ReplicaSet/web")
			s.pod(8, history.PodDeleted, "web", bystander, "ReplicaSet/web")
		}, want: Fail, got: "pod.deleted"},
		{name: "one deleted while putting back", edit: func(s *script) {
			workloadPod(s, "ReplicaSet/web")
			s.pod(75, history.PodTerminating, "web", bystander, "ReplicaSet/web")
			s.change(history.RunEnded, func(e *history.Event) { e.At = sec(76) })
		}, want: Pass},
		{name: "no pods", edit: func(s *script) { s.drop(kind(history.PodPresent)) }, want: Unknown},
		{name: "recording ends too soon", edit: func(s *script) { s.at(20, history.NewRunError("x")) }, want: Unknown},
	} {
		x.check = "no eviction"
		x.run(t, incidentStory)
	}
}
