package scenarios

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

func TestSharesWith(t *testing.T) {
	one := func(edit func(*Scenario)) Scenario {
		s := Scenario{
			CoreDNS: coredns.Settings{Placement: coredns.OnOnDemand, Replicas: 2},
			Nodes:   map[string]Pick{"victim": {Capacity: "spot"}},
			Steps:   []Step{{Notice: &Notice{Name: "reclaim"}}, {Message: &Message{Name: "bad"}}, {Reclaim: &Reclaim{Node: "victim"}}},
		}
		if edit != nil {
			edit(&s)
		}
		return s
	}
	for name, edit := range map[string]func(*Scenario){
		"it measures DNS":                func(s *Scenario) { s.Probe = &Probe{} },
		"it has no handler":              func(s *Scenario) { s.Handler = HandlerNone },
		"it needs other settings of DNS": func(s *Scenario) { s.CoreDNS.Replicas = 3 },
		"it is about two nodes": func(s *Scenario) {
			s.Nodes["second"] = Pick{Capacity: "spot"}
			s.Steps = append(s.Steps, Step{Message: &Message{Body: `{"instance-id": "${INSTANCE:second}"}`}})
		},
		"it looks at all spot nodes": func(s *Scenario) {
			s.Nodes["second"], s.Nodes["third"] = Pick{Capacity: "spot"}, Pick{Capacity: "spot"}
		},
		"it is about the others": func(s *Scenario) { s.Nodes["victim"] = Pick{Capacity: "on-demand"} },
		"its node runs CoreDNS":  func(s *Scenario) { s.Nodes["victim"] = Pick{Capacity: "spot", Runs: "coredns"} },
		"its pods go anywhere":   func(s *Scenario) { s.Workload.Spill = true },
		"its nodes are prepared": func(s *Scenario) {
			s.Nodes["second"] = Pick{Capacity: "spot", Prepared: &Prepared{Cordoned: true}}
		},
		"it deletes a node": func(s *Scenario) {
			s.Steps = append(s.Steps, Step{Do: &Do{Verb: Delete, Target: OnNode, Node: "victim"}})
		},
		"it breaks the queue":       func(s *Scenario) { s.Steps = append(s.Steps, Step{Fault: &Fault{}}) },
		"it disturbs the handler":   func(s *Scenario) { s.Steps = append(s.Steps, Step{Do: &Do{Verb: Kill, Target: OnHandler}}) },
		"it does away with CoreDNS": func(s *Scenario) { s.Steps = append(s.Steps, Step{Do: &Do{Verb: Kill, Target: OnCoreDNS}}) },
	} {
		if one(nil).SharesWith(one(edit)) || one(edit).SharesWith(one(nil)) {
			t.Errorf("%s, and shares the cluster", name)
		}
	}
	for name, edit := range map[string]func(*Scenario){
		"nothing speaks against it": nil,
		"its node is prepared":      func(s *Scenario) { s.Nodes["victim"] = Pick{Capacity: "spot", Prepared: &Prepared{Cordoned: true}} },
		"its node is uncordoned": func(s *Scenario) {
			s.Steps = append(s.Steps, Step{Do: &Do{Verb: Uncordon, Target: OnNode, Node: "victim"}})
		},
		"it has a bystander":         func(s *Scenario) { s.Nodes["bystander"] = Pick{Capacity: "spot"} },
		"it looks at the others":     func(s *Scenario) { s.Nodes["reserved"] = Pick{Capacity: "on-demand"} },
		"it does nothing to any one": func(s *Scenario) { s.Steps = nil },
	} {
		if !one(nil).SharesWith(one(edit)) || !one(edit).SharesWith(one(nil)) {
			t.Errorf("%s, and it shares the cluster with none", name)
		}
	}
}
