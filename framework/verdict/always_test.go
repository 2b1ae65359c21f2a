package verdict

import (
	"slices"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

func TestAlways(t *testing.T) {
	other := func(e history.Event) func(*script) {
		return func(s *script) { s.at(8, e) }
	}
	for _, x := range []expectation{
		{name: "whole", check: "recording complete", want: Pass, got: "queries"},
		{name: "other scenario", edit: func(s *script) { s.meta.Scenario = "other" }, check: "recording complete", want: Unknown, got: `"other"`},
		{name: "no settling", edit: func(s *script) {
			s.drop(func(e history.Event) bool { return history.Settle.BegunBy(e) })
		}, check: "recording complete", want: Unknown, got: `"settle"`},
		{name: "node out of nowhere", edit: other(history.NewNodeReady("stranger")), check: "recording complete", want: Unknown, got: "stranger"},
		{name: "pod out of nowhere", edit: func(s *script) { s.pod(8, history.PodDeleted, "stranger", victim, "ReplicaSet/x") }, check: "recording complete", want: Unknown, got: "stranger"},
		{name: "not ended", edit: func(s *script) { s.drop(kind(history.RunEnded)) }, check: "recording complete", want: Unknown, got: "last event"},

		{name: "harness whole", check: "harness", want: Pass},
		{name: "harness broke", edit: other(history.NewRunError("lost the queue")), check: "harness", want: Unknown, got: "lost the queue"},

		{name: "restored", check: "restored", want: Pass, got: "restored"},
		{name: "restored with effort", edit: func(s *script) {
			s.change(history.Restored, func(e *history.Event) { e.Note = "uncordoned " + victim })
		}, check: "restored", want: Pass, got: "restored: uncordoned " + victim},
		{name: "touches are counted", edit: func(s *script) {
			other(history.NewNodeCordoned(reserved))(s)
			for range 2 {
				s.pod(9, history.PodEvicted, "proxy-"+reserved, reserved, "DaemonSet/kube-proxy")
			}
		}, check: "reserved nodes untouched", want: Fail, got: reserved + ": node.cordoned, pod.evicted x 2"},
		{name: "not restored", edit: func(s *script) { s.drop(kind(history.Restored)) }, check: "restored", want: Unknown},

		{name: "reserved cordoned", edit: other(history.NewNodeCordoned(reserved)), check: "reserved nodes untouched", want: Fail, got: reserved},
		{name: "reserved tainted", edit: other(history.NewNodeTainted(plane, "example.com/disrupted", "")), check: "reserved nodes untouched", want: Fail, got: plane},
		{name: "reserved tainted by the handler before the steps", edit: func(s *script) {
			s.at(1.5, history.NewNodeTainted(plane, "example.com/disrupted", ""))
		}, check: "reserved nodes untouched", want: Fail, got: plane},
		{name: "reserved tainted during the steps by the handler", edit: func(s *script) {
			other(history.NewNodeTainted(plane, "node-role.kubernetes.io/x", ""))(s)
			audited(s, 7.9, history.NewHandlerWrote("", plane, "", history.Action("patch")))
		}, check: "reserved nodes untouched", want: Fail, got: plane},
		{name: "reserved tainted during the steps by somebody else", edit: func(s *script) {
			other(history.NewNodeTainted(plane, "cni.example.com/agent-not-ready", ""))(s)
			s.at(28, history.NewAuditRead(""))
		}, check: "reserved nodes untouched", want: Pass},
		{name: "reserved tainted during the steps, and no audit log", edit: other(history.NewNodeTainted(plane, "node-role.kubernetes.io/x", "")), check: "reserved nodes untouched", want: Unknown, got: plane + ": node.tainted; the history does not show by whom"},
		{name: "a pod on no node evicted", edit: func(s *script) {
			s.pod(7, history.PodCreated, "pending", "", "ReplicaSet/pending")
			s.pod(8, history.PodEvicted, "pending", "", "ReplicaSet/pending")
		}, check: "no node touched without a cause", want: Fail, got: "pods that were on no node: pod.evicted"},
		{name: "reserved came back", edit: func(s *script) {
			s.at(8, history.NewNodeDeleted(reserved))
			s.at(9, history.NewNodePresent(reserved, "on-demand"))
		}, check: "reserved nodes untouched", want: Fail, got: reserved + ": node.deleted"},
		{name: "reserved deleted", edit: other(history.NewNodeDeleted(reserved)), check: "reserved nodes untouched", want: Fail},
		{name: "reserved drained", edit: func(s *script) { s.pod(8, history.PodEvicted, "proxy-"+reserved, reserved, "DaemonSet/kube-proxy") }, check: "reserved nodes untouched", want: Fail, got: "pod.evicted"},
		{name: "reserved tainted by Kubernetes", edit: other(history.NewNodeTainted(reserved, "node.kubernetes.io/not-ready", "")), check: "reserved nodes untouched", want: Pass},
		{name: "reserved pod preempted", edit: other(history.NewPodEvicted("default/proxy-"+reserved, "uid-proxy-"+reserved, "PreemptionByScheduler", history.Node(reserved))), check: "reserved nodes untouched", want: Pass},
		{name: "reserved named by a notice", edit: func(s *script) {
			s.at(7, history.NewNoticePut("other", "", reserved))
			s.at(8, history.NewNodeCordoned(reserved))
		}, check: "reserved nodes untouched", want: Pass},
		{name: "no reserved nodes", edit: func(s *script) {
			s.drop(func(e history.Event) bool {
				return e.Kind == history.NodePresent && (e.Node == reserved || e.Node == plane)
			})
		}, check: "reserved nodes untouched", want: Unknown},
		{name: "harness broke before the end", edit: other(history.NewRunError("lost the watch")), check: "reserved nodes untouched", want: Unknown, got: "recording ends there"},

		{name: "one drain", check: "one drain per node and cause", want: Pass, got: "1 drain"},
		{name: "a second drain of its own accord", edit: func(s *script) {
			other(history.NewNodeUncordoned(victim))(s)
			s.at(9, history.NewNodeCordoned(victim))
		}, check: "one drain per node and cause", want: Fail, got: victim + ": node.cordoned 2 times, and named 1 time"},
		{name: "a second drain for a second notice", edit: func(s *script) {
			other(history.NewNodeUncordoned(victim))(s)
			s.at(8.5, history.NewNoticePut("again", "", victim))
			s.at(9, history.NewNodeCordoned(victim))
		}, check: "one drain per node and cause", want: Pass, got: "2 drains"},
		{name: "a drain of a node that was never seen", edit: func(s *script) { s.drop(kind(history.NodePresent)) }, check: "one drain per node and cause", want: Unknown},

		{name: "the notice's message was deleted", check: "no message lost", want: Pass, got: "1 put, 1 deleted, 0 left"},
		{name: "a message vanished", edit: func(s *script) { s.drop(kind(history.SQSDeleted)) }, check: "no message lost", want: Fail, got: "1 of 1 were not deleted, and 0 were in the queue"},
		{name: "a message expired, as a fault of the drill wanted it", edit: func(s *script) {
			s.drop(kind(history.SQSDeleted))
			s.at(8, history.NewFaultHit("retention", history.ShortRetention))
		}, check: "no message lost", want: Pass, got: "1 put, 0 deleted, 0 left, 1 expired"},
		{name: "a message vanished while another fault lasted", edit: func(s *script) {
			s.drop(kind(history.SQSDeleted))
			s.at(8, history.NewFaultHit("outage", history.RecreatedQueue))
		}, check: "no message lost", want: Fail},
		{name: "a message was left", edit: func(s *script) {
			s.drop(kind(history.SQSDeleted))
			s.change(history.QueueDepth, func(e *history.Event) { e.Numbers[history.Invisible] = 1 })
		}, check: "no message lost", want: Pass, got: "0 deleted, 1 left"},
		{name: "a message was left, which may be the other drill's", edit: func(s *script) {
			s.drop(kind(history.SQSDeleted))
			s.change(history.QueueDepth, func(e *history.Event) { e.Numbers[history.Invisible] = 1 })
			s.at(0, history.NewConcurrentDrill("another-scenario", history.Notice("n-2")))
		}, check: "no message lost", want: Unknown, got: "may be another drill's"},
		{name: "the other drill's node is touched", edit: func(s *script) {
			s.at(0, history.NewConcurrentDrill("another-scenario", history.Node(bystander)))
			s.at(5, history.NewNodeCordoned(bystander))
		}, check: "no node touched without a cause", want: Pass},
		{name: "a node that is neither's is touched", edit: func(s *script) {
			s.at(0, history.NewConcurrentDrill("another-scenario", history.Node("another-worker")))
			s.at(5, history.NewNodeCordoned(bystander))
		}, check: "no node touched without a cause", want: Fail},
		{name: "the queue was not counted", edit: func(s *script) { s.drop(kind(history.QueueDepth)) }, check: "no message lost", want: Unknown},
		{name: "the record broke off before a deletion", edit: func(s *script) {
			s.drop(kind(history.SQSDeleted))
			other(history.NewRunError("lost the queue"))(s)
		}, check: "no message lost", want: Unknown},

		{name: "deleted once the drain was recorded", edit: committing("recorded", 6), check: "commit point", want: Pass, got: "1 message"},
		{name: "deleted before the drain was recorded", edit: func(s *script) {
			committing("recorded", 4.3)(s)
			markedAt5(s)
		}, check: "commit point", want: Fail, got: "0.700s before"},
		{name: "deleted once more when the drain was recorded", edit: func(s *script) {
			committing("drained", 6)(s)
			s.at(10.2, history.NewSQSDeleted("", "m-1", "n-1"))
		}, check: "commit point", want: Fail, got: "4.000s before"},
		{name: "deleted once no pod ran any more, and the last was not yet removed", edit: func(s *script) {
			committing("drained", 9.4)(s)
			for _, e := range s.events {
				if e.Kind == history.PodEvicted {
					s.at(9.3, history.NewPodFinished(e.Pod, e.UID, "Succeeded", history.Like(e)))
				}
			}
		}, check: "commit point", want: Pass},
		{name: "the mark was on its way, and no audit log shows since when", edit: committing("recorded", 4.3), check: "commit point", want: Unknown, got: "0.200s before the drain of worker-spot-a was surely recorded"},
		{name: "the audit log has the mark before the deletion", edit: func(s *script) {
			committing("recorded", 4.3)(s)
			wrote(s, 4.29)
		}, check: "commit point", want: Pass},
		{name: "the audit log has the mark after the deletion", edit: func(s *script) {
			committing("recorded", 4.3)(s)
			wrote(s, 4.32)
		}, check: "commit point", want: Fail, got: "0.020s before"},
		{name: "the audit log has the mark before the deletion, and it was seen long after", edit: func(s *script) {
			committing("recorded", 4.3)(s)
			markedAt5(s)
			wrote(s, 4.29)
		}, check: "commit point", want: Pass},
		{name: "the audit log has a write on either side of the deletion", edit: func(s *script) {
			committing("recorded", 4.3)(s)
			wrote(s, 4.29)
			wrote(s, 4.32)
		}, check: "commit point", want: Unknown, got: "0.020s before"},
		{name: "the audit log has a write of long before, and none of the mark", edit: func(s *script) {
			committing("recorded", 4.3)(s)
			wrote(s, 3)
		}, check: "commit point", want: Unknown},
		{name: "the node's own object was deleted before the message, long before the mark", edit: func(s *script) {
			committing("recorded", 4.3)(s)
			markedAt5(s)
			deletedObject(s, 4.2)
			wrote(s, 4.99)
		}, check: "commit point", want: Pass},
		{name: "the node's own object was deleted after the message", edit: func(s *script) {
			committing("recorded", 4.3)(s)
			deletedObject(s, 4.31)
			wrote(s, 4.32)
		}, check: "commit point", want: Fail, got: "0.010s before"},
		{name: "the node's own object was deleted before the notice", edit: func(s *script) {
			committing("recorded", 4.3)(s)
			deletedObject(s, 0.5)
			wrote(s, 4.32)
		}, check: "commit point", want: Fail, got: "0.020s before"},
		{name: "deleted and never drained", edit: func(s *script) {
			committing("recorded", 6)(s)
			s.drop(kind(history.NodeCordoned))
		}, check: "commit point", want: Fail, got: "never recorded"},
		{name: "deleted once the node was empty", edit: committing("drained", 10.1), check: "commit point", want: Pass},
		{name: "deleted before the node was empty", edit: committing("drained", 6), check: "commit point", want: Fail, got: "4.000s before"},

		{name: "victim has a cause", check: "no node touched without a cause", want: Pass},
		{name: "a node of another lane changed", edit: other(history.NewHandlerWrote("handler-1", "spotdrill-virtual-lane2-7", "")), check: "no node touched without a cause", want: Fail, got: "that are not part of the drill: handler.wrote"},
		{name: "a pod of another lane evicted", edit: other(history.NewHandlerTook("handler-1", "spotdrill-lane2-workload-1/app-1", history.Action("evict"))), check: "no node touched without a cause", want: Fail, got: "that are not part of the drill: handler.took"},
		{name: "bystander cordoned", edit: other(history.NewNodeCordoned(bystander)), check: "no node touched without a cause", want: Fail, got: bystander},
		{name: "victim cordoned before its notice", edit: func(s *script) { s.at(3, history.NewNodeCordoned(victim)) }, check: "no node touched without a cause", want: Fail, got: victim},
		{name: "named by a message", edit: func(s *script) {
			s.scenario.Steps = append(s.scenario.Steps, scenarios.Step{Message: &scenarios.Message{Name: "raw", Body: `{"instance-id":"${INSTANCE:bystander}"}`}})
			s.at(7, history.NewMessagePut("raw", "m-9"))
			s.at(8, history.NewNodeCordoned(bystander))
		}, check: "no node touched without a cause", want: Pass},
		{name: "named by no message", edit: func(s *script) {
			s.scenario.Steps = append(s.scenario.Steps, scenarios.Step{Message: &scenarios.Message{Name: "raw", Body: `{}`}})
			s.at(7, history.NewMessagePut("raw", "m-9"))
			s.at(8, history.NewNodeCordoned(bystander))
		}, check: "no node touched without a cause", want: Fail},
	} {
		x.run(t, drainStory)
	}
}

// markedAt5 has the victim cordoned at 5 s.
func markedAt5(s *script) {
	s.change(history.NodeCordoned, func(e *history.Event) {
		if e.Node == victim {
			e.At = sec(5)
		}
	})
}

// wrote has the API server's audit log report, at the end, when the handler asked to
// change the victim.
func wrote(s *script, seconds float64) {
	audited(s, seconds, history.NewHandlerWrote("", victim, "", history.Action("patch")))
}

// deletedObject has the audit log report when the handler asked to delete what it has
// for the victim.
func deletedObject(s *script, seconds float64) {
	audited(s, seconds, history.NewHandlerWrote("", victim, "nodeclaims.karpenter.sh victim", history.Action("delete")))
}

// audited has the audit log report, at the end, what the handler asked for of a node.
func audited(s *script, seconds float64, e history.Event) {
	e.Said = new(sec(seconds))
	s.at(30, e)
}

// committing has the handler claim a commit point, and delete its message then.
func committing(point history.CommitPoint, seconds float64) func(*script) {
	return func(s *script) {
		s.meta.Handler.CommitPoint = point
		s.change(history.SQSDeleted, func(e *history.Event) { e.At = sec(seconds) })
	}
}

// There is no queue whose messages could be lost.
func TestAHandlerThatReadsMetadataIsNotJudgedByAQueue(t *testing.T) {
	for from, want := range map[history.NoticeSource]bool{history.FromQueue: true, history.FromMetadata: false} {
		s := drainStory()
		s.meta.Handler.Reads = from
		judged := slices.ContainsFunc(s.judge().Verdicts, func(v Verdict) bool { return v.ID == checkNoneLost.ID || v.ID == checkDeleted.ID })
		if judged != want {
			t.Errorf("from %s: judged by messages: %t", from, judged)
		}
	}
}
