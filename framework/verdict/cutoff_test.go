package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Requests to pods that an upgrade of the add-on vpc-cni has cut off are lost to that upgrade, and
// only these: the pods have security groups of their own, and answer nothing for a while.
func TestRequestsToPodsThatAreCutOff(t *testing.T) {
	addOn := func(seconds float64, kind history.Kind, name string) func(*script) {
		return func(s *script) { s.at(seconds, history.Event{Kind: kind, Key: name}) }
	}
	upgraded := addOn(8, history.AddOnUpgrading, scenarios.VPCCNIAddOn)
	set := addOn(13, history.AddOnSet, scenarios.VPCCNIAddOn)
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
		"the upgrade is refused":               {edits: []func(*script){upgraded, addOn(8.1, history.AddOnRefused, scenarios.VPCCNIAddOn)}, from: 9, to: 12, want: Unexplained},
		"it is an upgrade of another add-on":   {edits: []func(*script){addOn(8, history.AddOnUpgrading, scenarios.CoreDNSAddOn)}, from: 9, to: 12, want: Unexplained},
		"no upgrade at all":                    {from: 9, to: 12, want: Unexplained},
		"the pods have no groups of their own": {edits: []func(*script){upgraded, set}, from: 9, to: 12, without: true, want: Unexplained},
		"a second upgrade": {
			edits: []func(*script){upgraded, set, addOn(15, history.AddOnUpgrading, scenarios.VPCCNIAddOn), addOn(20, history.AddOnSet, scenarios.VPCCNIAddOn)},
			from:  16, to: 19, want: CutOff,
		},
	} {
		s := applicationStory()
		s.scenario.Workload.SecurityGroups = !c.without
		s.at(28.9, history.Event{Kind: history.FlowsRecorded, Numbers: history.Numbers{history.Resolution: 0.005}})
		s.flows = append(s.flows, history.Flow{Port: 40000, Target: history.Application, Backend: appStaying, From: sec(1.9)})
		for _, edit := range c.edits {
			edit(s)
		}
		for _, mode := range []history.Mode{history.HTTP, history.HTTPKept} {
			s.lose(history.Application, mode, c.from, c.to, history.Timeout)
		}
		losses := s.judge().ApplicationLosses
		if len(losses) != 1 || losses[0].Cause != c.want {
			t.Errorf("%s: %+v, want %s", name, losses, c.want)
		}
	}
}

// A pod that was never reached is not known to be cut off, and DNS never is.
func TestWhatTheAddOnDoesNotCutOff(t *testing.T) {
	s := applicationStory()
	s.scenario.Workload.SecurityGroups = true
	s.at(2, history.Event{Kind: history.AddOnUpgrading, Key: scenarios.VPCCNIAddOn})
	if cuts := newJudge(story.Read(s.scenario, s.history())).cutsOff(); cuts != nil {
		t.Errorf("CoreDNS is cut off in %v", cuts)
	}
	tr := traffic{cuts: []period{{sec(2), sec(30)}}}
	if _, is := tr.cutOff(&backend{}, sec(9)); is {
		t.Error("a pod that answered nothing at all is cut off")
	}
}
