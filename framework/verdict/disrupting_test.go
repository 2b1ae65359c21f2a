package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

const launchedNode = "worker-launched"

// driftStory is a node that the handler replaces because it was configured otherwise. It
// passes.
func driftStory() *script {
	s := drainStory()
	s.scenario.Probe, s.queries = nil, nil
	s.drop(func(e history.Event) bool { return e.Kind == history.ProberStarted || e.Kind == history.ProberEnded })
	for _, of := range []history.Kind{history.NoticePut, history.SQSReceived, history.SQSDeleted, history.Reclaimed, history.ClusterEvent} {
		s.drop(kind(of))
	}
	s.change(history.QueueDepth, func(e *history.Event) { e.Numbers[history.Visible] = 0 })
	s.scenario.Feature = "drift"
	s.scenario.Steps = []scenarios.Step{{Do: &scenarios.Do{Verb: scenarios.Configure, Target: scenarios.OnHandler, Name: "new-ami", Disrupts: []string{"victim"}}}}
	s.scenario.Checks = []scenarios.Check{
		Require(ReplacedFirst{Node: "victim", Of: "new-ami", Within: strict.Duration(sec(15))}),
		Require(Removed{Node: "victim", Of: "new-ami", Within: strict.Duration(sec(15))}),
	}
	s.at(2.5, history.NewHandlerReconfigured("new-ami", "drift", history.Node(victim)))
	s.at(3, history.NewInstanceLaunched("i-l", "", ""))
	s.at(3.5, history.NewNodePresent(launchedNode, "spot", history.Instance("i-l")))
	s.at(4, history.NewNodeReady(launchedNode))
	s.at(4.1, history.NewInstanceJoined("i-l", launchedNode))
	s.at(11, history.NewInstanceEnded("i-a", victim))
	s.at(12, history.NewNodeDeleted(victim))
	return s
}

func TestReplacedFirst(t *testing.T) {
	if r := driftStory().judge(); r.Outcome != Pass {
		t.Errorf("the drill is %s: %+v", r.Outcome, r.Verdicts)
	}
	readyAt := func(seconds float64) func(*script) {
		return func(s *script) { s.change(history.NodeReady, func(e *history.Event) { e.At = sec(seconds) }) }
	}
	for _, x := range []expectation{
		{name: "when the launched node is Ready", want: Pass, got: "1.000s after " + launchedNode},
		{name: "before the launched node is Ready", edit: readyAt(6), want: Fail, got: "1.000s before " + launchedNode},
		{name: "without a launched node", edit: func(s *script) { s.drop(kind(history.InstanceJoined)) }, want: Fail, got: "0 launched nodes were ever Ready"},
		{name: "when a node is Ready that was launched before", edit: func(s *script) {
			s.change(history.InstanceJoined, func(e *history.Event) { e.At = sec(2.2) })
		}, want: Fail, got: "0 launched nodes were ever Ready"},
		{name: "when the launched node replaces another one", edit: func(s *script) {
			s.at(2.5, history.NewHandlerReconfigured("new-ami", "drift", history.Node(bystander)))
			s.pod(1, history.PodPresent, "web", bystander, "ReplicaSet/web")
			s.pod(4.5, history.PodTerminating, "web", bystander, "ReplicaSet/web")
		}, want: Fail, got: "node 2 of those that are removed, and 1 launched nodes"},
		{name: "marked before the launched node is Ready, and drained later", edit: moveMark(3), want: Pass},
		{name: "too late", edit: func(s *script) {
			for _, k := range []history.Kind{history.PodEvicted, history.PodTerminating} {
				for i, e := range s.events {
					if e.Kind == k && e.UID == "uid-coredns-a" {
						s.events[i].At = sec(18)
					}
				}
			}
		}, want: Fail, got: "no pod had to leave"},
		{name: "never", edit: func(s *script) {
			s.drop(func(e history.Event) bool {
				return e.UID == "uid-coredns-a" && (e.Kind == history.PodEvicted || e.Kind == history.PodTerminating)
			})
		}, want: Fail, got: "no pod had to leave"},
		{name: "never configured so", edit: func(s *script) { s.drop(kind(history.HandlerReconfigured)) }, want: Unknown, got: "never called for the removal"},
	} {
		x.check = "victim replaced first"
		x.run(t, driftStory)
	}
}

func TestRemoved(t *testing.T) {
	moved := func(of history.Kind, seconds float64) func(*script) {
		return func(s *script) { s.change(of, func(e *history.Event) { e.At = sec(seconds) }) }
	}
	for _, x := range []expectation{
		{name: "when it is drained", want: Pass, got: "gone after 9.500s"},
		{name: "before its last pod is gone", edit: moved(history.InstanceEnded, 9), want: Fail, got: "coredns-a"},
		{name: "with a pod that never goes", edit: func(s *script) {
			s.drop(func(e history.Event) bool { return e.Kind == history.PodDeleted && e.UID == "uid-coredns-a" })
		}, want: Fail, got: "coredns-a"},
		{name: "too late", edit: moved(history.NodeDeleted, 18), want: Fail, got: "not removed within 15s"},
		{name: "never", edit: func(s *script) { s.drop(kind(history.NodeDeleted)) }, want: Fail, got: "not removed within 15s"},
		{name: "without an end of its instance", edit: func(s *script) { s.drop(kind(history.InstanceEnded)) }, want: Fail, got: "not removed within 15s"},
		{name: "the Node object before the instance", edit: func(s *script) {
			s.change(history.NodeDeleted, func(e *history.Event) { e.At = sec(10.9) })
			s.change(history.InstanceEnded, func(e *history.Event) { e.At = sec(16) })
		}, want: Fail, got: "deleted 5.100s before its instance was terminated"},
		{name: "the Node object as the harness sees the instance end", edit: func(s *script) {
			s.change(history.NodeDeleted, func(e *history.Event) { e.At = sec(10.9) })
		}, want: Pass},
		{name: "because an operator deleted the Node object", edit: func(s *script) {
			s.drop(kind(history.HandlerReconfigured))
			s.at(2.5, history.NewOperatorActed("new-ami", history.DeleteNode, victim))
		}, want: Pass},
		{name: "never configured so", edit: func(s *script) { s.drop(kind(history.HandlerReconfigured)) }, want: Unknown, got: "never called for the removal"},
	} {
		x.check = "victim removed"
		x.run(t, driftStory)
	}
}
