package session

import (
	"slices"
	"testing"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/scenarios"
)

// What is played in lanes measures nothing, needs no kubelet, and has what it needs for itself in the lane.
func TestWhatIsPlayedInLanes(t *testing.T) {
	t.Parallel()
	s := session(t, "builtin")
	s.Lanes = 8
	chosen := s.forLanes()
	if len(chosen) < 50 {
		t.Errorf("only %d of %d can be played in lanes", len(chosen), len(s.Scenarios))
	}
	for _, scenario := range chosen {
		if scenario.Probe != nil || scenario.CoreDNS.String() != chosen[0].CoreDNS.String() {
			t.Errorf("%s measures queries, or has settings of CoreDNS of its own", scenario.Name)
		}
		for _, claim := range scenario.Claims() {
			if claim.Mode == scenarios.Exclusive && !slices.Contains([]scenarios.Resource{scenarios.SpotNodes, scenarios.HandlerProcess, scenarios.HandlerQueue, scenarios.APIProxy}, claim.Resource) {
				t.Errorf("%s claims %s", scenario.Name, claim)
			}
		}
	}
	if !slices.IsSortedFunc(chosen, func(a, b scenarios.Scenario) int { return int(Expected(b, s.Set) - Expected(a, s.Set)) }) {
		t.Error("the longest is not the first")
	}
}

func TestWhenNothingIsPlayedInLanes(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Session){
		"one lane":           func(s *Session) { s.Lanes = 1 },
		"several times":      func(s *Session) { s.Repeat = 2 },
		"kept after failure": func(s *Session) { s.Keep = true },
	} {
		s := session(t, "builtin")
		s.Lanes = 8
		change(s)
		if chosen := s.forLanes(); len(chosen) > 0 {
			t.Errorf("%s: %d are to be played in lanes", name, len(chosen))
		}
	}
	s := session(t, "karpenter")
	s.Lanes = 8
	if chosen := s.forLanes(); len(chosen) > 0 {
		t.Errorf("a handler that a cluster has once: %d are to be played in lanes", len(chosen))
	}
}

// Each scenario is one lane's, and a lane goes on with those for which its handler stays as it is.
func TestALaneTakesWhatItsHandlerIsInstalledFor(t *testing.T) {
	t.Parallel()
	s := session(t, "nth")
	s.Lanes = 8
	l := &lanes{Session: s, under: s.Handler, batch: Batch{Scenarios: s.forLanes()}}
	total, seen, installs := len(l.batch.Scenarios), map[string]bool{}, 0
	var installed *handler.Description
	for {
		scenario, ok := l.next(installed)
		if !ok {
			break
		}
		if seen[scenario.Name] {
			t.Errorf("%s was taken twice", scenario.Name)
		}
		seen[scenario.Name] = true
		under := l.installed(scenario)
		if installed == nil || !installed.Same(under) {
			installs++
		}
		installed = &under
	}
	different := 0
	for i, scenario := range s.forLanes() {
		if !slices.ContainsFunc(s.forLanes()[:i], func(o scenarios.Scenario) bool { d := l.installed(o); return d.Same(l.installed(scenario)) }) {
			different++
		}
	}
	if len(seen) != total || installs != different || total == 0 {
		t.Errorf("%d of %d were taken, with %d installations; %d are different", len(seen), total, installs, different)
	}
}
