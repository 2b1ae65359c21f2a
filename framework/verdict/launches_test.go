package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// twoDriftedStory is two nodes that are replaced one after the other. It passes.
func twoDriftedStory() *script {
	s := driftStory()
	s.only(Require(DisruptedAtOnce{Of: "new-ami", Max: 1}))
	s.at(2.5, history.NewHandlerReconfigured("new-ami", "drift", history.Node(bystander)))
	s.pod(1, history.PodPresent, "web", bystander, "ReplicaSet/web")
	s.at(13, history.NewNodeTainted(bystander, "example.com/disrupted", "NoSchedule"))
	s.pod(14, history.PodEvicted, "web", bystander, "ReplicaSet/web")
	s.pod(14, history.PodTerminating, "web", bystander, "ReplicaSet/web")
	s.pod(15, history.PodDeleted, "web", bystander, "ReplicaSet/web")
	s.at(16, history.NewInstanceEnded("", bystander))
	s.at(16, history.NewNodeDeleted(bystander))
	return s
}

func TestDisruptedAtOnce(t *testing.T) {
	of := func(node string, kinds ...history.Kind) func(history.Event) bool {
		return func(e history.Event) bool {
			for _, k := range kinds {
				if e.Kind == k && e.Node == node {
					return true
				}
			}
			return false
		}
	}
	moved := func(node string, seconds float64, kinds ...history.Kind) func(*script) {
		return func(s *script) {
			for i, e := range s.events {
				if of(node, kinds...)(e) {
					s.events[i].At = sec(seconds)
				}
			}
		}
	}
	for _, x := range []expectation{
		{name: "one after the other", want: Pass, got: "2 nodes removed, never more than 1"},
		{name: "the second is marked before the first is gone", edit: moved(bystander, 5.9, history.NodeTainted), want: Fail, got: "2 nodes being removed"},
		{name: "the second is drained, unmarked, before the first is gone", edit: func(s *script) {
			s.drop(of(bystander, history.NodeTainted))
			moved(bystander, 5.9, history.PodEvicted, history.PodTerminating)(s)
		}, want: Fail, got: "2 nodes being removed"},
		{name: "the second is marked as the instance of the first ends", edit: moved(bystander, 6.1, history.NodeTainted), want: Pass},
		{name: "the first is never gone", edit: func(s *script) { s.drop(of(victim, history.NodeDeleted, history.InstanceEnded)) }, want: Fail, got: "2 nodes being removed"},
		{name: "the second is never removed", edit: func(s *script) {
			s.drop(of(bystander, history.NodeTainted, history.PodEvicted, history.PodTerminating))
		}, want: Unknown, got: "only 1 node removed"},
		{name: "within a budget of two", edit: func(s *script) {
			more := s.scenario.Checks[0].Requirement.(DisruptedAtOnce)
			more.Max = 2
			s.scenario.Checks[0] = Require(more)
			moved(bystander, 11, history.NodeTainted)(s)
		}, want: Unknown, got: "only 2 nodes removed"},
	} {
		x.check = "nodes removed at once for new-ami"
		x.run(t, twoDriftedStory)
	}
}

// lateDaemonStory is a DaemonSet that is pending on a node and runs on its replacement. It
// passes.
func lateDaemonStory() *script {
	s := driftStory()
	s.only(Require(DaemonSetRuns{Name: "agent", Of: "new-ami", Within: strict.Duration(sec(15))}))
	s.at(2.1, history.NewDeployed("agent"))
	s.pod(2.2, history.PodCreated, "agent-1", "", "DaemonSet/agent")
	s.at(2.3, history.NewClusterEvent("Pod", "FailedScheduling", history.Pod("default/agent-1"), history.Owner("default-scheduler"), history.Note("Insufficient memory")))
	s.pod(4.2, history.PodCreated, "agent-2", "", "DaemonSet/agent")
	s.pod(4.3, history.PodScheduled, "agent-2", launchedNode, "DaemonSet/agent")
	s.pod(4.9, history.PodReady, "agent-2", launchedNode, "DaemonSet/agent")
	s.pod(12.1, history.PodDeleted, "agent-1", "", "DaemonSet/agent")
	return s
}

func TestDaemonSetRuns(t *testing.T) {
	for _, x := range []expectation{
		{name: "on the replacement", want: Pass, got: "1 were pending (Insufficient memory)"},
		{name: "none is Ready on the replacement", edit: func(s *script) { s.drop(kind(history.PodReady)) }, want: Fail, got: "no Ready pod on " + launchedNode},
		{name: "the node without it is never replaced", edit: func(s *script) { s.drop(kind(history.NodeDeleted)) }, want: Fail, got: "no Ready pod on " + victim},
		{name: "too late", edit: func(s *script) { s.change(history.PodReady, func(e *history.Event) { e.At = sec(18) }) }, want: Fail, got: "no Ready pod on " + launchedNode},
		{name: "it was never pending", edit: func(s *script) {
			s.pod(2.4, history.PodScheduled, "agent-1", victim, "DaemonSet/agent")
		}, want: Unknown, got: "none of its pods was pending"},
		{name: "pending only later", edit: func(s *script) {
			s.change(history.PodCreated, func(e *history.Event) { e.At = max(e.At, sec(3)) })
		}, want: Unknown, got: "none of its pods was pending"},
		{name: "never configured so", edit: func(s *script) { s.drop(kind(history.HandlerReconfigured)) }, want: Unknown, got: "never called for a removal"},
		{name: "the record ends before", edit: func(s *script) {
			s.drop(func(e history.Event) bool { return e.At > sec(4.5) })
			s.cut = "it ends in the middle"
		}, want: Unknown, got: "does not run everywhere"},
	} {
		x.check = "DaemonSet agent runs"
		x.run(t, lateDaemonStory)
	}
}

// lostInDrainStory is a node whose instance is taken while it is drained. It passes.
func lostInDrainStory() *script {
	s := drainStory()
	s.only(Require(Removed{Node: "victim", Within: strict.Duration(sec(5))}))
	s.change(history.Reclaimed, func(e *history.Event) { e.At = sec(8) })
	s.at(11, history.NewNodeDeleted(victim))
	return s
}

func TestForgotten(t *testing.T) {
	for _, x := range []expectation{
		{name: "soon", want: Pass, got: "gone after 3.000s; 1 pod left on it"},
		{name: "too late", edit: func(s *script) { s.change(history.NodeDeleted, func(e *history.Event) { e.At = sec(13.5) }) }, want: Fail, got: "still there after 5s"},
		{name: "never", edit: func(s *script) { s.drop(kind(history.NodeDeleted)) }, want: Fail, got: "still there after 5s"},
		{name: "drained before", edit: func(s *script) {
			s.change(history.PodDeleted, func(e *history.Event) { e.At = sec(7) })
		}, want: Unknown, got: "was already drained"},
		{name: "its instance stays", edit: func(s *script) { s.drop(kind(history.Reclaimed)) }, want: Unknown, got: "was not taken"},
	} {
		x.check = "victim forgotten"
		x.run(t, lostInDrainStory)
	}
}

// unjoinedStory is a launch without a node, which a notice names. It passes.
func unjoinedStory() *script {
	s := drainStory()
	s.only(Require(Removed{Of: "again", Within: strict.Duration(sec(5))}))
	until := sec(24)
	s.at(5.5, history.NewInstanceLaunched("i-l", "", ""))
	s.at(5.6, history.NewInstanceFailed("i-l", "", ""))
	s.at(6, history.NewNoticePut("again", "", "", history.Notice("n-2"), history.Instance("i-l"), history.Until(until)))
	s.at(6.2, history.NewSQSReceived("", "m-2", "n-2"))
	s.at(6.5, history.NewSQSDeleted("", "m-2", "n-2"))
	s.at(8, history.NewInstanceEnded("i-l", ""))
	return s
}

func TestTerminated(t *testing.T) {
	for _, x := range []expectation{
		{name: "in time", want: Pass, got: "1 terminated"},
		{name: "too late", edit: func(s *script) { s.change(history.InstanceEnded, func(e *history.Event) { e.At = sec(12) }) }, want: Fail, got: "i-l still runs after 5s"},
		{name: "never", edit: func(s *script) { s.drop(kind(history.InstanceEnded)) }, want: Fail, got: "i-l still runs after 5s"},
		{name: "another one in its place", edit: func(s *script) {
			s.change(history.InstanceEnded, func(e *history.Event) { e.Instance = "i-a" })
		}, want: Fail, got: "i-l still runs after 5s"},
		{name: "it became a node", edit: func(s *script) {
			s.at(5.8, history.NewInstanceJoined("i-l", launchedNode))
		}, want: Unknown, got: "became node " + launchedNode},
		{name: "no notice", edit: func(s *script) {
			s.drop(func(e history.Event) bool { return e.Notice == "n-2" })
		}, want: Unknown, got: "was never sent"},
	} {
		x.check = "instances of again terminated"
		x.run(t, unjoinedStory)
	}
}

// unplaceableStory is a pod that no instance type can run. It passes.
func unplaceableStory() *script {
	s := drainStory()
	s.only(Require(Reported{Notice: "reclaim", Text: "vpc.amazonaws.com/pod-eni", Within: strict.Duration(sec(5))}))
	s.at(7, history.NewClusterEvent("Pod", "FailedScheduling", history.Pod("default/coredns-b"), history.Owner("builtin"), history.Note("no instance type has vpc.amazonaws.com/pod-eni")))
	return s
}

func TestPodReported(t *testing.T) {
	last := func(edit func(*history.Event)) func(*script) {
		return func(s *script) { edit(&s.events[len(s.events)-1]) }
	}
	for _, x := range []expectation{
		{name: "by the handler", want: Pass, got: "FailedScheduling by builtin after 3.000s"},
		{name: "too late", edit: last(func(e *history.Event) { e.At = sec(9.5) }), want: Fail, got: "no event"},
		{name: "by the scheduler", edit: last(func(e *history.Event) { e.Owner = "default-scheduler" }), want: Fail, got: "no event"},
		{name: "without the request", edit: last(func(e *history.Event) { e.Note = "no instance type fits" }), want: Fail, got: "no event"},
		{name: "on the node", edit: last(func(e *history.Event) {
			*e = history.NewClusterEvent("Node", e.KubernetesReason(), history.Like(*e), history.Node(victim), history.Pod(""))
		}), want: Fail, got: "no event"},
		{name: "no notice", edit: func(s *script) { s.drop(kind(history.NoticePut)) }, want: Unknown, got: "was never sent"},
	} {
		x.check = "pending pod reported after reclaim"
		x.run(t, unplaceableStory)
	}
}
