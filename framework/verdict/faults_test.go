package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// outageStory is a drain whose notice came while the queue was out of order,
// from +3 to +5. It passes.
func outageStory() *script {
	s := drainStory()
	s.scenario.Steps = append([]scenarios.Step{{Fault: &scenarios.Fault{Fault: fault.Fault{Name: "outage", Type: "error", Status: 500, For: strict.Duration(sec(2))}}}}, s.scenario.Steps...)
	s.scenario.Checks = []scenarios.Check{
		Require(Marked{Node: "victim", Notice: "reclaim", After: "outage", Within: strict.Duration(sec(5))}),
		Require(Deleted{Of: "reclaim", After: "outage", Within: strict.Duration(sec(10))}),
		Require(DrainedOnce{Node: "victim"}),
		Require(Untouched{Node: "bystander"}),
		Require(NotRestarted{}),
		Require(QueueEmpty{}),
	}
	s.meta.Handler.Deployment, s.meta.Handler.DrainEvent = "default/handler", "Draining"
	s.pod(1, history.PodPresent, "handler-5d8f-x", reserved, "ReplicaSet/handler-5d8f")
	s.at(3, history.NewFaultBegun("outage", "error"))
	s.at(3.4, history.NewFaultHit("outage", "error", history.Action("ReceiveMessage")))
	s.at(5, history.NewFaultEnded("outage", "time"))
	s.change(history.SQSReceived, func(e *history.Event) { e.At = sec(5.2) })
	s.change(history.NodeCordoned, func(e *history.Event) {
		if e.Node == victim {
			e.At = sec(5.5)
		}
	})
	s.at(5.6, history.NewClusterEvent("Node", "Draining", history.Node(victim), history.Owner("handler")))
	return s
}

func cordonedAt(seconds float64) func(*script) {
	return func(s *script) {
		s.change(history.NodeCordoned, func(e *history.Event) {
			if e.Node == victim {
				e.At = sec(seconds)
			}
		})
	}
}

func TestMarkedAfterAFault(t *testing.T) {
	for _, x := range []expectation{
		{name: "in time", want: Pass, got: "after 0.500s"},
		{name: "later than the time after the notice, not after the fault", edit: cordonedAt(9.9), want: Pass, got: "after 4.900s"},
		{name: "too late after the fault's end", edit: cordonedAt(10.5), want: Fail, got: "after 5.500s"},
		{name: "too late after the fault's end, unless it was seen late", edit: cordonedAt(10.1), want: Unknown, got: "after 5.100s"},
		{name: "while the fault was on", edit: cordonedAt(4.5), want: Pass, got: "after 0.000s"},
		{name: "not marked", edit: func(s *script) { s.drop(kind(history.NodeCordoned)) }, want: Fail, got: "not marked"},
		{name: "the fault ended before the notice", edit: func(s *script) {
			s.change(history.FaultEnded, func(e *history.Event) { e.At = sec(3.5) })
			cordonedAt(9.5)(s)
		}, want: Fail, got: "after 5.500s"},
		{name: "the fault hit nothing", edit: func(s *script) { s.drop(kind(history.FaultHit)) }, want: Unknown, got: "hit no call"},
		{name: "the fault did not end", edit: func(s *script) { s.drop(kind(history.FaultEnded)) }, want: Unknown, got: "did not end"},
		{name: "another fault ended", edit: func(s *script) {
			s.change(history.FaultEnded, func(e *history.Event) { *e = history.NewFaultEnded("other", e.FaultEnd(), history.Like(*e)) })
		}, want: Unknown, got: "did not end"},
		{name: "the recording ends within the time", edit: func(s *script) {
			s.drop(kind(history.NodeCordoned))
			s.at(9.5, history.NewRunError("x"))
		}, want: Unknown, got: "recording ends there"},
	} {
		x.check = "marked victim"
		x.run(t, outageStory)
	}
}

func TestDeletedAfterAFault(t *testing.T) {
	deletedAt := func(seconds float64) func(*script) {
		return func(s *script) { s.change(history.SQSDeleted, func(e *history.Event) { e.At = sec(seconds) }) }
	}
	for _, x := range []expectation{
		{name: "in time", want: Pass, got: "after 1.000s"},
		{name: "later than the time after the notice, not after the fault", edit: deletedAt(14.9), want: Pass, got: "after 9.900s"},
		{name: "too late after the fault's end", edit: deletedAt(15.1), want: Fail, got: "after 10.100s"},
		{name: "not deleted", edit: func(s *script) { s.drop(kind(history.SQSDeleted)) }, want: Fail, got: "not deleted"},
		{name: "the fault did not end", edit: func(s *script) { s.drop(kind(history.FaultEnded)) }, want: Unknown, got: "did not end"},
	} {
		x.check = "deleted reclaim"
		x.run(t, outageStory)
	}
}

func TestFaultsInjected(t *testing.T) {
	for _, x := range []expectation{
		{name: "hit", want: Pass, got: "1 hit"},
		{name: "never begun", edit: func(s *script) { s.drop(kind(history.FaultBegun)) }, want: Unknown, got: `"outage" never began`},
		{name: "nothing hit", edit: func(s *script) { s.drop(kind(history.FaultHit)) }, want: Unknown, got: `"outage" hit no call`},
		{name: "one of two hit", edit: func(s *script) {
			s.scenario.Steps = append(s.scenario.Steps, scenarios.Step{Fault: &scenarios.Fault{Fault: fault.Fault{Name: "twice", Type: "duplicate", Count: 1}}})
			s.at(7, history.NewFaultBegun("twice", ""))
		}, want: Unknown, got: `"twice" hit no call`},
	} {
		x.check = "faults injected"
		x.run(t, outageStory)
	}
}

func TestDrainedOnce(t *testing.T) {
	announced := func(seconds float64) func(*script) {
		return func(s *script) {
			s.at(seconds, history.NewClusterEvent("Node", "Draining", history.Node(victim), history.Owner("handler")))
		}
	}
	silent := func(s *script) { s.meta.Handler.DrainEvent = "" }
	for _, x := range []expectation{
		{name: "once", want: Pass, got: "drained once"},
		{name: "announced twice", edit: announced(12), want: Fail, got: "Draining 2 times, the last at +12.000s"},
		{name: "announced twice by a handler that claims no such event", edit: func(s *script) { announced(12)(s); silent(s) }, want: Pass},
		{name: "announced again after it was killed", edit: func(s *script) { killedAt(8)(s); announced(12)(s) }, want: Pass, got: "drained once"},
		{name: "announced again after it was replaced by an update", edit: func(s *script) { disturbedAt(8, history.UpdateHandler)(s); announced(12)(s) }, want: Pass},
		{name: "announced again after it was only cut off", edit: func(s *script) { disturbedAt(8, history.CutOffHandler)(s); announced(12)(s) }, want: Fail},
		{name: "announced twice after it was killed", edit: func(s *script) { killedAt(8)(s); announced(12)(s); announced(14)(s) }, want: Fail, got: "Draining 2 times"},
		{name: "announced twice, and killed only then", edit: func(s *script) { announced(7)(s); killedAt(8)(s) }, want: Fail},
		{name: "killed before it announced anything", edit: func(s *script) { killedAt(4.2)(s); announced(12)(s) }, want: Fail, got: "Draining 2 times"},
		{name: "announced on another node", edit: func(s *script) {
			s.at(12, history.NewClusterEvent("Node", "Draining", history.Node(bystander), history.Owner("handler")))
		}, want: Pass},
		{name: "announced again once the instance is gone", edit: announced(25), want: Pass},
		{name: "reported of something else", edit: func(s *script) {
			s.at(12, history.NewClusterEvent("Node", "DrainResumed", history.Node(victim), history.Owner("handler")))
		}, want: Pass},
		{name: "cordoned twice", edit: func(s *script) {
			s.at(8, history.NewNodeUncordoned(victim))
			s.at(9, history.NewNodeCordoned(victim))
		}, want: Fail, got: "node.cordoned 2 times"},
		{name: "tainted twice", edit: func(s *script) {
			for _, at := range []float64{5.5, 9} {
				s.at(at, history.NewNodeTainted(victim, "example.com/disrupted", ""))
			}
		}, want: Fail, got: "node.tainted 2 times"},
		{name: "cordoned and tainted", edit: func(s *script) {
			s.at(5.5, history.NewNodeTainted(victim, "example.com/disrupted", ""))
		}, want: Pass},
		{name: "not drained at all", edit: func(s *script) { s.drop(kind(history.NodeCordoned)) }, want: Fail, got: "never marked"},
		{name: "not announced", edit: func(s *script) {
			s.drop(func(e history.Event) bool { return e.KubernetesReason() == "Draining" })
		}, want: Unknown, got: "would not show"},
		{name: "the recording ends too soon", edit: func(s *script) { s.at(12, history.NewRunError("x")) }, want: Unknown, got: "recording ends there"},
		{name: "which node is not known", edit: func(s *script) { s.drop(kind(history.NodeRole)) }, want: Unknown},
	} {
		x.check = "drained once victim"
		x.run(t, outageStory)
	}
}

// disturbedAt has the harness disturb both replicas of the handler.
func disturbedAt(seconds float64, how history.Disturbance) func(*script) {
	return func(s *script) {
		for _, pod := range []string{"handler-5d8f-x", "handler-5d8f-y"} {
			s.at(seconds, history.NewHandlerDisturbed("crash", how, history.Pod("default/"+pod), history.UID("uid-"+pod)))
		}
	}
}

func killedAt(seconds float64) func(*script) { return disturbedAt(seconds, history.KillHandler) }

func TestNotRestarted(t *testing.T) {
	happens := func(k history.Kind, name, owner string) func(*script) {
		return func(s *script) { s.pod(8, k, name, reserved, owner) }
	}
	const pod, set = "handler-5d8f-x", "ReplicaSet/handler-5d8f"
	for _, x := range []expectation{
		{name: "there throughout", want: Pass, got: "1 pod, none restarted"},
		{name: "crashed", edit: func(s *script) {
			s.at(8, history.NewPodRestarted("default/"+pod, "uid-"+pod, "Error", history.Node(reserved), history.Owner(set), history.With(history.Numbers{history.ExitCode: 2})))
		}, want: Fail, got: "pod.restarted (Error, exit code 2)"},
		{name: "ended", edit: happens(history.PodExited, pod, set), want: Fail, got: "pod.exited"},
		{name: "deleted", edit: happens(history.PodDeleted, pod, set), want: Fail, got: "pod.deleted"},
		{name: "replaced", edit: happens(history.PodCreated, "handler-5d8f-y", set), want: Fail, got: "pod.created"},
		{name: "restarted before the steps", edit: func(s *script) { s.pod(1.5, history.PodRestarted, pod, reserved, set) }, want: Pass},
		{name: "another Deployment's", edit: func(s *script) {
			s.pod(1, history.PodPresent, "handler-web-5d8f-x", reserved, "ReplicaSet/handler-web-5d8f")
			s.pod(8, history.PodRestarted, "handler-web-5d8f-x", reserved, "ReplicaSet/handler-web-5d8f")
		}, want: Pass},
		{name: "another namespace", edit: func(s *script) { s.meta.Handler.Deployment = "elsewhere/handler" }, want: Unknown, got: "no pod of elsewhere/handler"},
		{name: "no handler", edit: func(s *script) { s.meta.Handler.Deployment = "" }, want: Unknown, got: "does not show where"},
		{name: "the recording ends too soon", edit: func(s *script) { s.at(12, history.NewRunError("x")) }, want: Unknown, got: "recording ends there"},
	} {
		x.check = "handler not restarted"
		x.run(t, outageStory)
	}
}

func TestQueueEmpty(t *testing.T) {
	depth := func(visible, invisible float64) func(*script) {
		return func(s *script) {
			s.change(history.QueueDepth, func(e *history.Event) {
				e.Numbers = history.Numbers{history.Visible: visible, history.Invisible: invisible}
			})
		}
	}
	for _, x := range []expectation{
		{name: "empty", want: Pass, got: "none"},
		{name: "one waits", edit: depth(1, 0), want: Fail, got: "1 visible and 0 handed out"},
		{name: "one handed out", edit: depth(0, 1), want: Fail, got: "0 visible and 1 handed out"},
		{name: "one handed out as the drill was cut short", edit: func(s *script) {
			depth(0, 1)(s)
			s.at(12, history.NewRunError("x"))
		}, want: Unknown, got: "0 visible and 1 handed out when the drill was cut short"},
		{name: "not counted", edit: func(s *script) { s.drop(kind(history.QueueDepth)) }, want: Unknown, got: "does not show"},
	} {
		x.check = "queue empty"
		x.run(t, outageStory)
	}
}

func TestMidDrain(t *testing.T) {
	disturb := func(seconds float64, reason string) func(*script) {
		return func(s *script) {
			s.meta.Handler.DrainEvent = ""
			s.pod(1, history.PodPresent, "handler-5d8f-x", reserved, "ReplicaSet/handler-5d8f")
			s.at(seconds, history.NewHandlerDisturbed("crash", history.Disturbance(reason), history.Pod("default/handler-5d8f-x"), history.UID("uid-handler-5d8f-x")))
		}
	}
	killed := func(seconds float64) func(*script) {
		return func(s *script) {
			disturb(seconds, "kill")(s)
			s.pod(seconds+1, history.PodRestarted, "handler-5d8f-x", reserved, "ReplicaSet/handler-5d8f")
		}
	}
	for _, x := range []expectation{
		{name: "killed while a pod was left", edit: killed(6), want: Pass, got: "1.500s into the drain, with 1 pod left"},
		{name: "killed before the drain", edit: killed(4.4), want: Unknown, got: "no drain"},
		{name: "killed when all was done", edit: killed(10.5), want: Unknown, got: "no pod was left"},
		{name: "killed and went on", edit: disturb(6, "kill"), want: Unknown, got: "went on as before"},
		{name: "never killed", edit: func(*script) {}, want: Unknown, got: "never began"},
		{name: "cut off", edit: func(s *script) {
			disturb(6, "cut-off")(s)
			s.at(8, history.NewHandlerLeftAlone("crash", "", history.With(history.Numbers{history.Dropped: 3})))
		}, want: Pass},
		{name: "cut off and sent nothing", edit: func(s *script) {
			disturb(6, "cut-off")(s)
			s.at(8, history.NewHandlerLeftAlone("crash", "", history.With(history.Numbers{history.Dropped: 0})))
		}, want: Unknown, got: "not a packet"},
	} {
		x.check = "crash in the middle of the drain of victim"
		edit := x.edit
		x.edit = func(s *script) {
			s.only(Require(MidDrain{Disturbance: "crash", Node: "victim"}))
			edit(s)
		}
		x.run(t, drainStory)
	}
}
