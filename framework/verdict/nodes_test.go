package verdict

import (
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

func victimCordoned(e history.Event) bool {
	return e.Kind == history.NodeCordoned && e.Node == victim
}

// moveMark has the handler cordon the victim at another time.
func moveMark(seconds float64) func(*script) {
	return func(s *script) {
		s.drop(victimCordoned)
		s.at(seconds, history.NewNodeCordoned(victim))
	}
}

func TestMarked(t *testing.T) {
	for _, x := range []expectation{
		{name: "cordoned", want: Pass, got: "0.500s"},
		{name: "on the edge", edit: moveMark(9), want: Pass, got: "5.000s"},
		{name: "late, unless it was seen late", edit: moveMark(9.001), want: Unknown, got: "5.001s"},
		{name: "late", edit: moveMark(9.5), want: Fail, got: "5.500s"},
		{name: "late, as the handler had no processor", edit: handlerStarved(10, 5), want: Unknown, noise: true, got: "the handler had no processor for 5.000s"},
		{name: "late, and the handler had no processor for a part of it", edit: handlerStarved(10, 0.5), want: Fail, got: "6.000s"},
		{name: "tainted in place of cordoned", edit: func(s *script) {
			s.drop(victimCordoned)
			s.at(5, history.NewNodeTainted(victim, "example.com/disrupted", ""))
		}, want: Pass, got: "1.000s"},
		{name: "never", edit: func(s *script) { s.drop(victimCordoned) }, want: Fail, got: "before its instance was taken"},
		{name: "only after the instance was taken", edit: moveMark(24.5), want: Fail, got: "before its instance was taken"},
		{name: "never, and never taken", edit: func(s *script) { s.drop(victimCordoned); s.drop(kind(history.Reclaimed)) }, want: Fail, got: "not marked"},
		{name: "another node", edit: func(s *script) {
			s.drop(victimCordoned)
			s.at(5, history.NewNodeCordoned(bystander))
		}, want: Fail},
		{name: "by a taint that the handler does not claim", edit: func(s *script) {
			s.drop(victimCordoned)
			s.at(5, history.NewNodeTainted(victim, "example.com/other", ""))
		}, want: Fail},
		{name: "by a mark that the handler does not claim", edit: func(s *script) { s.meta.Handler.Unschedulable = false }, want: Fail},
		{name: "taken off again", edit: func(s *script) { s.at(12, history.NewNodeUncordoned(victim)) }, want: Fail, got: "+12.000s"},
		{name: "one of two marks taken off", edit: func(s *script) {
			s.at(5, history.NewNodeTainted(victim, "example.com/disrupted", ""))
			s.at(12, history.NewNodeUncordoned(victim))
		}, want: Pass},
		{name: "marked by an earlier notice", edit: func(s *script) {
			moveMark(3.5)(s)
			s.at(3, history.NewNoticePut("earlier", history.SpotInterruption, victim))
		}, want: Pass, got: "0.000s"},
		{name: "marked by an earlier notice, on a Node object that was deleted since", edit: func(s *script) {
			moveMark(3.2)(s)
			s.at(3, history.NewNoticePut("earlier", history.SpotInterruption, victim))
			s.at(3.4, history.NewNodeDeleted(victim))
			s.at(3.6, history.NewNodePresent(victim, ""))
		}, want: Fail, got: "before its instance was taken"},
		{name: "and marked again after that", edit: func(s *script) {
			moveMark(3.2)(s)
			s.at(3, history.NewNoticePut("earlier", history.SpotInterruption, victim))
			s.at(3.4, history.NewNodeDeleted(victim))
			s.at(3.6, history.NewNodePresent(victim, ""))
			s.at(5, history.NewNodeCordoned(victim))
		}, want: Pass, got: "1.000s"},
		{name: "not marked by a handler that reads no queue", edit: func(s *script) {
			s.meta.Handler.Reads = history.FromMetadata
			s.drop(victimCordoned)
			s.drop(kind(history.SQSReceived))
		}, want: Fail, got: "not marked"},
		{name: "marked before any notice", edit: moveMark(3), want: Unknown, got: "before any notice"},
		{name: "recording ends too soon", edit: func(s *script) {
			s.drop(victimCordoned)
			s.at(7, history.NewRunError("lost the watch"))
		}, want: Unknown, got: "recording ends there"},
		{name: "taken before the time was up, then the harness broke", edit: func(s *script) {
			s.drop(victimCordoned)
			s.change(history.Reclaimed, func(e *history.Event) { e.At = sec(7) })
			s.at(8, history.NewRunError("lost the watch"))
		}, want: Fail, got: "before its instance was taken"},
		{name: "no role", edit: func(s *script) { s.drop(kind(history.NodeRole)) }, want: Unknown, got: `which node "victim" is`},
		{name: "node not seen", edit: func(s *script) { s.drop(kind(history.NodePresent)) }, want: Unknown, got: "was not seen"},
		{name: "notice for another node", edit: func(s *script) {
			s.change(history.NoticePut, func(e *history.Event) { e.Node = bystander })
		}, want: Unknown, got: "never put"},
		{name: "handler claims no mark", edit: func(s *script) { s.meta.Handler = history.Handler{Name: "shy"} }, want: Unknown, got: `"shy" claims no mark`},
	} {
		x.check = "marked victim"
		x.run(t, drainStory)
	}
}

// handlerStarved has the mark come late, after a time in which the handler had no processor.
func handlerStarved(mark, waited float64) func(*script) {
	return func(s *script) {
		moveMark(mark)(s)
		s.meta.Handler.Deployment = "default/handler"
		s.pod(1, history.PodPresent, "handler-5d4-x2", reserved, "ReplicaSet/handler-5d4")
		s.starve("handler-5d4-x2", 4.5, 4.5+waited, 0, 0)
	}
}

func TestMarkedSaysHowLongItTookAndWhereThatStands(t *testing.T) {
	s := drainStory()
	h := s.history()
	v := named(t, Judge(s.scenario, h), "marked victim")
	if v.Numbers["marked_seconds"] != 0.5 {
		t.Errorf("numbers %v", v.Numbers)
	}
	if len(v.Evidence) != 2 || h.Events[v.Evidence[0]-1].Kind != history.NoticePut || h.Events[v.Evidence[1]-1].Kind != history.NodeCordoned {
		t.Errorf("evidence %v", v.Evidence)
	}
}

func TestMarkedWantsWhatTheHandlerClaims(t *testing.T) {
	for want, h := range map[string]history.Handler{
		"cordoned within":                {Unschedulable: true},
		"tainted a/b within":             {Taint: "a/b"},
		"cordoned or tainted a/b within": {Unschedulable: true, Taint: "a/b"},
		"marked within":                  {},
	} {
		s := drainStory()
		s.meta.Handler = h
		if v := named(t, s.judge(), "marked victim"); !strings.HasPrefix(v.Want, want) {
			t.Errorf("requires %q, want %q", v.Want, want)
		}
	}
}

func TestUntouched(t *testing.T) {
	touch := func(e history.Event) func(*script) {
		return func(s *script) {
			e.Node = bystander
			s.at(8, e)
		}
	}
	for _, x := range []expectation{
		{name: "left alone", want: Pass},
		{name: "cordoned", edit: touch(history.NewNodeCordoned("")), want: Fail, got: "node.cordoned"},
		{name: "cordoned by a handler that claims taints only", edit: func(s *script) {
			s.meta.Handler.Unschedulable = false
			touch(history.NewNodeCordoned(""))(s)
		}, want: Fail},
		{name: "tainted", edit: touch(history.NewNodeTainted("", "example.com/disrupted", "")), want: Fail},
		{name: "tainted by Kubernetes", edit: touch(history.NewNodeTainted("", "node.kubernetes.io/unreachable", "")), want: Pass},
		{name: "deleted", edit: touch(history.NewNodeDeleted("")), want: Fail},
		{name: "pod evicted", edit: touch(history.NewPodEvicted("default/proxy-"+bystander, "uid-proxy-"+bystander, "EvictionByEvictionAPI")), want: Fail},
		{name: "pod taken by the node controller", edit: touch(history.NewPodEvicted("default/proxy-"+bystander, "uid-proxy-"+bystander, "DeletionByTaintManager")), want: Pass},
		{name: "pod of the workload deleted", edit: deletes("ReplicaSet/web", ""), want: Fail, got: "pod.terminating"},
		{name: "daemon pod deleted by the handler", edit: func(s *script) {
			s.pod(8, history.PodTerminating, "proxy-"+bystander, bystander, "DaemonSet/kube-proxy")
			s.took(7.9, "default/proxy-"+bystander)
		}, want: Fail, got: "pod.terminating"},
		{name: "daemon pod deleted, and no audit log", edit: func(s *script) {
			s.pod(8, history.PodTerminating, "proxy-"+bystander, bystander, "DaemonSet/kube-proxy")
		}, want: Unknown, got: "the history does not show by whom"},
		{name: "daemon pod deleted by somebody else", edit: func(s *script) {
			s.pod(8, history.PodTerminating, "proxy-"+bystander, bystander, "DaemonSet/kube-proxy")
			s.at(28, history.NewAuditRead(""))
		}, want: Pass},
		{name: "tainted by somebody else", edit: func(s *script) {
			touch(history.NewNodeTainted("", "cni.example.com/agent-not-ready", ""))(s)
			s.at(28, history.NewAuditRead(""))
		}, want: Pass},
		{name: "cordoned while putting back", edit: func(s *script) { s.at(33, history.NewNodeCordoned(bystander)) }, want: Pass},
		{name: "cordoned after it was taken", edit: func(s *script) {
			s.at(7, history.NewReclaimed(bystander))
			s.at(8, history.NewNodeCordoned(bystander))
		}, want: Pass},
		{name: "taken untouched, then the harness broke", edit: func(s *script) {
			s.at(7, history.NewReclaimed(bystander))
			s.at(8, history.NewRunError("x"))
		}, want: Pass},
		{name: "no role", edit: func(s *script) {
			s.drop(func(e history.Event) bool { return e.Role() == "bystander" })
		}, want: Unknown},
		{name: "recording ends too soon", edit: touch(history.NewRunError("x")), want: Unknown, got: "recording ends there"},
	} {
		x.check = "untouched bystander"
		x.run(t, drainStory)
	}
}

func TestNodeEvent(t *testing.T) {
	by := func(reporter string) func(*script) {
		return func(s *script) { s.change(history.ClusterEvent, func(e *history.Event) { e.Owner = reporter }) }
	}
	when := func(seconds float64) func(*script) {
		return func(s *script) { s.change(history.ClusterEvent, func(e *history.Event) { e.At = sec(seconds) }) }
	}
	for _, x := range []expectation{
		{name: "in time", want: Pass, got: "SpotInterruption by builtin after 0.600s"},
		{name: "no event", edit: func(s *script) { s.drop(kind(history.ClusterEvent)) }, want: Fail},
		{name: "on the edge", edit: when(9), want: Pass},
		{name: "late", edit: when(9.5), want: Fail, got: "only after 5.500s"},
		{name: "before the notice", edit: when(3), want: Fail},
		{name: "by the node controller", edit: by("node-controller"), want: Fail},
		{name: "without a reporter", edit: by(""), want: Fail},
		{name: "about a pod", edit: func(s *script) {
			s.change(history.ClusterEvent, func(e *history.Event) { *e = history.NewClusterEvent("Pod", e.KubernetesReason(), history.Like(*e)) })
		}, want: Fail},
		{name: "about another node", edit: func(s *script) { s.change(history.ClusterEvent, func(e *history.Event) { e.Node = bystander }) }, want: Fail},
		{name: "notice never put", edit: func(s *script) { s.drop(kind(history.NoticePut)) }, want: Unknown},
		{name: "recording ends too soon", edit: func(s *script) {
			s.drop(kind(history.ClusterEvent))
			s.at(7, history.NewRunError("x"))
		}, want: Unknown, got: "recording ends there"},
	} {
		x.check = "event on victim"
		x.run(t, drainStory)
	}
}

// tainted has the handler taint the victim in place of cordoning it.
func tainted(seconds float64, effect string) func(*script) {
	return func(s *script) {
		s.drop(victimCordoned)
		s.at(seconds, history.NewNodeTainted(victim, "example.com/disrupted", effect))
	}
}

// A taint keeps new pods away by NoSchedule or NoExecute. PreferNoSchedule does not.
func TestOnlyATaintThatKeepsPodsAwayIsAMark(t *testing.T) {
	for _, x := range []expectation{
		{name: "NoSchedule", edit: tainted(5, "NoSchedule"), want: Pass, got: "1.000s"},
		{name: "NoExecute", edit: tainted(5, "NoExecute"), want: Pass, got: "1.000s"},
		{name: "PreferNoSchedule", edit: tainted(5, "PreferNoSchedule"), want: Fail, got: "not marked"},
		{name: "PreferNoSchedule, and cordoned", edit: func(s *script) {
			tainted(4.5, "PreferNoSchedule")(s)
			s.at(5, history.NewNodeCordoned(victim))
		}, want: Pass, got: "1.000s"},
		{name: "NoSchedule weakened to PreferNoSchedule", edit: func(s *script) {
			tainted(5, "NoSchedule")(s)
			tainted(12, "PreferNoSchedule")(s)
			s.at(12, history.NewNodeUntainted(victim, "example.com/disrupted", "NoSchedule"))
		}, want: Fail, got: "+12.000s"},
	} {
		x.check = "marked victim"
		x.run(t, drainStory)
	}
}

// A node that is marked already when the notice comes was marked for that notice's sake
// only if an earlier one required it.
func TestMarkedForAnEarlierNotice(t *testing.T) {
	earlier := func(step scenarios.Notice) func(*script) {
		return func(s *script) {
			step.Name, step.Nodes = "earlier", []string{"victim"}
			s.scenario.Steps = append([]scenarios.Step{{Notice: &step}}, s.scenario.Steps...)
			s.at(2.5, history.NewNoticePut("earlier", step.Type, victim))
			moveMark(2.7)(s)
		}
	}
	for _, x := range []expectation{
		{name: "spot interruption", edit: earlier(scenarios.Notice{Type: history.SpotInterruption}), want: Pass, got: "0.000s"},
		{name: "state stopping", edit: earlier(scenarios.Notice{Type: history.StateChange, State: "stopping"}), want: Pass, got: "0.000s"},
		{name: "state running", edit: earlier(scenarios.Notice{Type: history.StateChange, State: "running"}), want: Unknown, got: "none of which requires a mark"},
		{name: "rebalance recommendation", edit: earlier(scenarios.Notice{Type: history.RebalanceRecommendation}), want: Unknown, got: "none of which requires a mark"},
		{name: "rebalance recommendation that the scenario requires a mark for", edit: func(s *script) {
			earlier(scenarios.Notice{Type: history.RebalanceRecommendation})(s)
			s.scenario.Checks = append(s.scenario.Checks, Require(Marked{Node: "victim", Notice: "earlier", Within: strict.Duration(sec(5))}))
		}, want: Pass, got: "0.000s"},
	} {
		x.check = "marked victim"
		x.run(t, drainStory)
	}
}

// reported changes the victim's event to one of this reporter and reason.
func reported(reporter, reason, note string) func(*script) {
	return func(s *script) {
		s.change(history.ClusterEvent, func(e *history.Event) {
			*e = history.NewClusterEvent("Node", reason, history.Like(*e), history.Owner(reporter), history.Note(note))
		})
	}
}

func TestNodeEventIsTheHandlers(t *testing.T) {
	for _, x := range []expectation{
		{name: "by the handler's name", edit: reported("builtin", "Busy", ""), want: Pass, got: "Busy by builtin"},
		{name: "by the reporter of its description", edit: func(s *script) {
			s.meta.Handler.Reporter = "drainer"
			reported("drainer", "Busy", "")(s)
		}, want: Pass, got: "Busy by drainer"},
		{name: "by its Deployment's name", edit: func(s *script) {
			s.meta.Handler.Deployment = "kube-system/drainer"
			reported("drainer", "Busy", "")(s)
		}, want: Pass, got: "Busy by drainer"},
		{name: "by an unknown reporter, of the interruption", edit: reported("somebody", "SpotInterruption", ""), want: Pass},
		{name: "by an unknown reporter, with the instance id", edit: reported("somebody", "Notified", "i-a is going away"), want: Pass},
		{name: "by an unknown reporter, of something else", edit: reported("gpu-operator", "NodeHasNoGPU", "no GPU found"), want: Unknown, got: "NodeHasNoGPU by gpu-operator"},
		{name: "of the interruption, by another than the description names", edit: func(s *script) {
			s.meta.Handler.Reporter = "drainer"
			reported("somebody", "SpotInterruption", "")(s)
		}, want: Unknown, got: "SpotInterruption by somebody"},
		{name: "first by an unknown reporter, then by the handler", edit: func(s *script) {
			s.at(4.3, history.NewClusterEvent("Node", "NodeHasNoGPU", history.Node(victim), history.Owner("gpu-operator")))
		}, want: Pass, got: "SpotInterruption by builtin after 0.600s"},
	} {
		x.check = "event on victim"
		x.run(t, drainStory)
	}
}

// A mark that was seen late is on time if the handler asked for it in time.
func TestMarkSeenLate(t *testing.T) {
	for _, x := range []expectation{
		{name: "the audit log has it in time", edit: func(s *script) { moveMark(9.3)(s); wrote(s, 8.9) }, want: Pass, got: "asked for after 4.900s"},
		{name: "the audit log has it in time, and it was seen long after", edit: func(s *script) { moveMark(12)(s); wrote(s, 8.9) }, want: Pass, got: "asked for after 4.900s"},
		{name: "the audit log has it too late", edit: func(s *script) { moveMark(9.3)(s); wrote(s, 9.1) }, want: Fail, got: "5.300s"},
		{name: "the audit log has a write before the limit and one after it", edit: func(s *script) { moveMark(9.3)(s); wrote(s, 8.9); wrote(s, 9.1) }, want: Unknown},
		{name: "an early write, and the one of the mark too late", edit: func(s *script) { moveMark(9.3)(s); wrote(s, 4.4); wrote(s, 9.1) }, want: Fail, got: "5.300s"},
		{name: "no audit log, seen just after the limit", edit: moveMark(9.3), want: Unknown, got: "may have been seen late"},
		{name: "no audit log, seen long after the limit", edit: moveMark(9.6), want: Fail, got: "5.600s"},
		{name: "a write from before the notice", edit: func(s *script) { moveMark(9.6)(s); wrote(s, 3) }, want: Fail, got: "5.600s"},
	} {
		x.check = "marked victim"
		x.run(t, drainStory)
	}
}

// What was seen first when a watch was back may have happened while it was lost.
func TestWhileAWatchWasLost(t *testing.T) {
	lost := func(resource string, from, to float64) func(*script) {
		return func(s *script) {
			heard := sec(from - 0.1)
			s.at(from, history.NewWatchLost(resource, history.Said(heard)))
			s.at(to, history.NewWatchBack(resource))
		}
	}
	onEvent := func(seconds float64) func(*script) {
		return func(s *script) { s.change(history.ClusterEvent, func(e *history.Event) { e.At = sec(seconds) }) }
	}
	gone := func(seconds float64) func(*script) {
		return func(s *script) {
			s.change(history.PodDeleted, func(e *history.Event) { e.At = sec(seconds) })
		}
	}
	for _, x := range []expectation{
		{name: "marked when it was back", edit: func(s *script) { lost("nodes", 6, 12)(s); moveMark(12.1)(s) }, check: "marked victim", want: Unknown, got: "the watch of nodes was lost from +6.000s to +12.000s"},
		{name: "marked long after it was back", edit: func(s *script) { lost("nodes", 6, 12)(s); moveMark(14)(s) }, check: "marked victim", want: Fail, got: "10.000s"},
		{name: "marked in time, and lost later", edit: lost("nodes", 6, 12), check: "marked victim", want: Pass},
		{name: "lost only once the time was up", edit: func(s *script) { lost("nodes", 10, 12)(s); moveMark(12.1)(s) }, check: "marked victim", want: Fail},
		{name: "never marked, lost at the limit", edit: func(s *script) { lost("nodes", 6, 12)(s); s.drop(victimCordoned) }, check: "marked victim", want: Unknown},
		{name: "never back", edit: func(s *script) {
			s.at(6, history.NewWatchLost("nodes"))
			s.drop(victimCordoned)
		}, check: "marked victim", want: Unknown},
		{name: "event seen when it was back", edit: func(s *script) { lost("events", 6, 12)(s); onEvent(12.1)(s) }, check: "event on victim", want: Unknown},
		{name: "pod gone when it was back", edit: func(s *script) { lost("pods", 20, 26)(s); gone(26.1)(s) }, check: "drained victim", want: Unknown},
		{name: "a node that must stay is cordoned all the same", edit: func(s *script) {
			lost("nodes", 6, 12)(s)
			s.at(12.1, history.NewNodeCordoned(bystander))
		}, check: "untouched bystander", want: Fail},
	} {
		x.run(t, drainStory)
	}
}

// polled has the handler ask for messages from one time to another.
func polled(s *script, from, to float64, messages int) {
	s.at(to, history.NewSQSCall("", "ReceiveMessage", "", history.Status(200), history.With(history.Numbers{
		history.Took: to - from, history.Messages: float64(messages),
	})))
}

// A time to act counts from when the handler could have the message. Time in which it
// asked for one and got none is not the handler's.
func TestTimeCountsFromTheFirstReceive(t *testing.T) {
	late := func(polls ...func(*script)) func(*script) {
		return func(s *script) {
			s.change(history.SQSReceived, func(e *history.Event) { e.At = sec(9.1) })
			s.change(history.ClusterEvent, func(e *history.Event) { e.At = sec(9.4) })
			s.change(history.SQSDeleted, func(e *history.Event) { e.At = sec(14.6) })
			moveMark(9.7)(s)
			for _, poll := range polls {
				poll(s)
			}
		}
	}
	poll := func(from, to float64, messages int) func(*script) {
		return func(s *script) { polled(s, from, to, messages) }
	}
	throttled := func(s *script) {
		s.at(9, history.NewSQSCall("", "ReceiveMessage", "", history.Status(400), history.With(history.Numbers{history.Took: 6})))
	}
	for _, x := range []struct {
		name  string
		polls []func(*script)
		want  Outcome
		after string // how long the mark took
	}{
		{"one poll was open from before the notice", []func(*script){poll(3, 9.1, 1)}, Pass, "0.600s"},
		{"a poll that came back empty, then another", []func(*script){poll(1, 8.9, 0), poll(9, 9.1, 1)}, Pass, "0.700s"},
		{"short polls, each of them empty", []func(*script){poll(5, 5.01, 0), poll(7, 7.01, 0), poll(9.09, 9.1, 1)}, Pass, "2.680s"},
		{"two replicas, of which one had a poll open", []func(*script){poll(2, 9.09, 0), poll(9.05, 9.1, 1)}, Pass, "0.600s"},
		{"it did not ask", []func(*script){poll(9.05, 9.1, 1)}, Fail, "5.650s"},
		{"it asked before the notice, and then not", []func(*script){poll(1, 3, 0), poll(9.05, 9.1, 1)}, Fail, "5.650s"},
		{"it was busy with other messages", []func(*script){poll(4.5, 4.6, 10), poll(9.05, 9.1, 1)}, Fail, "5.650s"},
		{"it asked another queue", []func(*script){func(s *script) {
			poll(1, 8.9, 0)(s)
			s.change(history.SQSCall, func(e *history.Event) {
				*e = history.NewSQSCall("another", e.Action, string(e.ErrorCode()), history.Like(*e))
			})
		}, poll(9.05, 9.1, 1)}, Fail, "5.650s"},
		{"its calls were refused", []func(*script){throttled, poll(9.05, 9.1, 1)}, Fail, "5.650s"},
	} {
		check := expectation{name: x.name, edit: late(x.polls...), check: "marked victim", want: x.want, got: "after " + x.after}
		check.run(t, drainStory)
	}
	for _, x := range []expectation{
		{name: "the event too", check: "event on victim", edit: late(poll(3, 9.1, 1)), want: Pass, got: "0.300s"},
		{name: "the deletion too", check: "deleted reclaim", edit: late(poll(3, 9.1, 1)), want: Pass, got: "5.500s"},
		{name: "never received, and none left in the queue", check: "marked victim", edit: func(s *script) {
			s.drop(victimCordoned)
			s.drop(kind(history.SQSReceived))
			s.drop(kind(history.SQSDeleted))
			s.change(history.QueueDepth, func(e *history.Event) { e.Numbers[history.Visible] = 0 })
		}, want: Unknown, got: "never have got there"},
		{name: "never received, and left in the queue", check: "marked victim", edit: func(s *script) {
			s.drop(victimCordoned)
			s.drop(kind(history.SQSReceived))
			s.drop(kind(history.SQSDeleted))
			s.change(history.QueueDepth, func(e *history.Event) { e.Numbers[history.Visible] = 1 })
		}, want: Fail, got: "not marked before"},
	} {
		x.run(t, drainStory)
	}
}
