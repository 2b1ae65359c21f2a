package verdict

import (
	"fmt"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// fleetStory is a storm over three of a fleet's four nodes, each marked after half a second and drained after two. It passes.
func fleetStory() *script {
	s := &script{
		scenario: scenarios.Scenario{
			Name: "fleet", Title: "A storm", Profile: "STORM", Fleet: &scenarios.Fleet{Nodes: 4},
			Workload: scenarios.Workload{Replicas: 8, Fleet: true},
			Settle:   strict.Duration(sec(5)),
			Steps:    []scenarios.Step{{Notice: &scenarios.Notice{Name: "reclaim", Type: "spot-interruption", Fleet: 3}}},
			Checks: []scenarios.Check{
				Require(Marked{Node: scenarios.FleetNodes, Notice: "reclaim", Within: strict.Duration(sec(5))}),
				Require(Drained{Node: scenarios.FleetNodes, Notice: "reclaim"}),
			},
		},
		meta: history.Meta{
			Format: history.FormatV1, Scenario: "fleet", Set: "full", Attempt: 1,
			Handler: history.Handler{Name: "builtin", Version: "1", Unschedulable: true},
		},
	}
	s.arrange()
	for i := range 4 {
		node := fmt.Sprintf("virtual-%d", i+1)
		s.at(0.2, history.NewNodeRole(fmt.Sprintf("fleet-%d", i+1), node, history.Instance("i-"+node)))
		s.at(1, history.NewNodePresent(node, "spot"))
		s.pod(1, history.PodPresent, "app-"+node, node, "ReplicaSet/app")
		if i == 3 {
			continue
		}
		at := 4 + float64(i)
		s.at(at, history.NewNoticePut("reclaim", "", node, history.Notice("n-"+node), history.Instance("i-"+node), history.Until(sec(at+20))))
		s.at(at+0.2, history.NewSQSReceived("", "m-"+node, "n-"+node))
		s.at(at+0.5, history.NewNodeCordoned(node))
		s.pod(at+1, history.PodEvicted, "app-"+node, node, "ReplicaSet/app")
		s.pod(at+1, history.PodTerminating, "app-"+node, node, "ReplicaSet/app")
		s.pod(at+2, history.PodDeleted, "app-"+node, node, "ReplicaSet/app")
		s.at(at+2.1, history.NewSQSDeleted("", "m-"+node, "n-"+node))
	}
	s.at(30, history.Settle.Begins())
	s.restore(40)
	return s
}

func TestFleetDrained(t *testing.T) {
	about := func(node string, k history.Kind) func(history.Event) bool {
		return func(e history.Event) bool { return e.Kind == k && (e.Node == node || e.Pod == "default/app-"+node) }
	}
	late := func(node string, k history.Kind, seconds float64) func(*script) {
		return func(s *script) {
			s.change(k, func(e *history.Event) {
				if about(node, k)(*e) {
					e.At = sec(seconds)
				}
			})
		}
	}
	marked, drained := "marked fleet", "drained fleet"
	for _, x := range []expectation{
		{name: "every node that has a notice is marked", check: marked, want: Pass, got: "3 of 3 nodes; virtual-1 marked after 0.500s"},
		{name: "and drained", check: drained, want: Pass, got: "3 of 3 nodes; 1 pod gone from virtual-1 after 2.000s"},
		{
			name: "one is never marked", check: marked, want: Fail, got: "2 of 3 nodes; virtual-2 not marked",
			edit: func(s *script) { s.drop(about("virtual-2", history.NodeCordoned)) },
		},
		{name: "one is marked late", check: marked, want: Fail, got: "2 of 3 nodes; virtual-1 marked after 25", edit: late("virtual-1", history.NodeCordoned, 29)},
		{
			name: "one is drained late", check: drained, want: Fail, got: "2 of 3 nodes; 1 of 1 pod still on virtual-3",
			edit: func(s *script) { s.drop(about("virtual-3", history.PodDeleted)) },
		},
		{
			name: "no pod was on one", check: drained, want: Pass, got: "2 of 2 nodes",
			edit: func(s *script) { s.drop(func(e history.Event) bool { return e.Pod == "default/app-virtual-2" }) },
		},
		{
			name: "no pod was on any", check: drained, want: Unknown, got: `notice "reclaim" named no node of the fleet with anything to judge`,
			edit: func(s *script) { s.drop(func(e history.Event) bool { return e.Pod != "" }) },
		},
		{name: "no notice was put", check: marked, want: Unknown, got: "named no node", edit: func(s *script) { s.drop(kind(history.NoticePut)) }},
		{
			name: "the recording ends early", check: drained, want: Unknown,
			edit: func(s *script) { s.drop(func(e history.Event) bool { return e.At >= sec(5.2) }) },
		},
	} {
		x.run(t, fleetStory)
	}
}
