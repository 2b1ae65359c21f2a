package loss

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// applicationStory is a drill in which an application is requested as well as DNS: every request is
// answered by a pod that stays.
func applicationStory() *script {
	const pod = "10.0.1.2"
	s := lossStory()
	s.scenario.Probe.Application = &scenarios.ApplicationProbe{Transport: scenarios.OverHTTP, Fresh: 40, Fixed: 20, Control: 10}
	s.ask(history.Application, history.HTTP, 40, 2, 29.1)
	s.ask(history.Application, history.HTTPKept, 20, 2, 29.1)
	s.pod(1, history.PodPresent, "app-z", bystander, "ReplicaSet/app")
	s.at(1, history.NewPodReady("default/app-z", "uid-app-z", history.IP(pod)))
	s.at(1, history.NewEndpointReady(scenarios.App, "default/app-z", pod))
	s.flows = append(s.flows, history.Flow{Port: 40000, Target: history.Application, Backend: pod, From: sec(1.9)})
	return s
}

// Requests to pods that an upgrade of the add-on vpc-cni has cut off are lost to that upgrade, and
// only these: the pods have security groups of their own, and answer nothing for a while.
func TestRequestsToPodsThatAreCutOff(t *testing.T) {
	upgrade := func(seconds float64, name string) func(*script) {
		return func(s *script) { s.at(seconds, history.NewAddOnUpgrading(name, history.PreserveConflicts)) }
	}
	setAt := func(seconds float64) func(*script) {
		return func(s *script) { s.at(seconds, history.NewAddOnSet(scenarios.VPCCNIAddOn)) }
	}
	upgraded := upgrade(8, scenarios.VPCCNIAddOn)
	set := setAt(13)
	refused := func(s *script) {
		s.at(8.1, history.NewAddOnRefused(scenarios.VPCCNIAddOn, history.RefuseConflicts))
	}
	for name, c := range map[string]struct {
		edits    []func(*script)
		from, to float64 // when requests are lost
		without  bool    // security groups
		want     Cause
	}{
		"until the values are set again":       {edits: []func(*script){upgraded, set}, from: 9, to: 12, want: CutOff},
		"the values are never set again":       {edits: []func(*script){upgraded}, from: 20, to: 29, want: CutOff},
		"after the values are set again":       {edits: []func(*script){upgraded, set}, from: 14, to: 17, want: Unexplained},
		"before the upgrade":                   {edits: []func(*script){upgraded, set}, from: 5, to: 7, want: Unexplained},
		"the pod answers in between":           {edits: []func(*script){upgraded, set}, from: 9, to: 9.5, want: Unexplained},
		"the upgrade is refused":               {edits: []func(*script){upgraded, refused}, from: 9, to: 12, want: Unexplained},
		"it is an upgrade of another add-on":   {edits: []func(*script){upgrade(8, scenarios.CoreDNSAddOn)}, from: 9, to: 12, want: Unexplained},
		"no upgrade at all":                    {from: 9, to: 12, want: Unexplained},
		"the pods have no groups of their own": {edits: []func(*script){upgraded, set}, from: 9, to: 12, without: true, want: Unexplained},
		"a second upgrade": {
			edits: []func(*script){upgraded, set, upgrade(15, scenarios.VPCCNIAddOn), setAt(20)},
			from:  16, to: 19, want: CutOff,
		},
	} {
		s := applicationStory()
		s.scenario.Workload.SecurityGroups = !c.without
		for _, edit := range c.edits {
			edit(s)
		}
		for _, mode := range []history.Mode{history.HTTP, history.HTTPKept} {
			s.lose(history.Application, mode, c.from, c.to, history.Timeout)
		}
		st, target := s.story(), Application(s.scenario)
		losses := Attribute(st, target, Measure(st, target)).Losses
		if len(losses) != 1 || losses[0].Cause != c.want {
			t.Errorf("%s: %+v, want %s", name, losses, c.want)
		}
	}
}

// A pod that was never reached is not known to be cut off, and DNS never is.
func TestWhatTheAddOnDoesNotCutOff(t *testing.T) {
	s := applicationStory()
	s.scenario.Workload.SecurityGroups = true
	s.at(2, history.NewAddOnUpgrading(scenarios.VPCCNIAddOn, ""))
	if cuts := newCuts(s.story(), DNS(s.scenario)); cuts != nil {
		t.Errorf("CoreDNS is cut off in %v", cuts)
	}
	if _, is := (cuts{{sec(2), sec(30)}}).off(&backend{}, sec(9)); is {
		t.Error("a pod that answered nothing at all is cut off")
	}
}
