package session

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
)

// If two drills are played at the same time, a phase counts from when both are in it.
func TestAPhaseBeginsWithTheLastDrill(t *testing.T) {
	var s stopwatch
	s.begin()
	s.play(2)
	for _, event := range []struct {
		phase history.Phase
		want  reports.Phase
	}{
		{history.Record, reports.Arranging},
		{history.Record, reports.Baseline},
		{history.Steps, reports.Baseline},
		{history.Steps, reports.Stepping},
		{history.Settle, reports.Stepping},
		{history.Settle, reports.Settling},
		{history.Restore, reports.Settling},
		{history.Restore, reports.Restoring},
	} {
		s.begins(event.phase)
		if got := s.watch.Phase(); got != event.want {
			t.Errorf("after %s: %s, want %s", event.phase, got, event.want)
		}
	}
	// Both are played alone now.
	s.play(1)
	s.begins(history.Record)
	if got := s.watch.Phase(); got != reports.Baseline {
		t.Errorf("alone, after record: %s, want %s", got, reports.Baseline)
	}
}

// While a drill is put back, CoreDNS is prepared for the one that follows: not for one
// that was played already, or does not apply.
func TestTheNextDrill(t *testing.T) {
	s := session(t, "builtin")
	s.report = &reports.Report{}
	s.Scenarios = []scenarios.Scenario{{Name: "first"}, {Name: "ahead"}, {Name: "unclaimed", Feature: "unknown", Profile: "INCIDENT"}, {Name: "second"}}
	s.More = []scenarios.Scenario{{Name: "self-check"}}
	for i := range s.Scenarios {
		s.Scenarios[i].CoreDNS.Replicas = i + 1
	}
	s.More[0].CoreDNS.Replicas = 9
	s.ahead["ahead"] = reports.Entry{}
	for reported, want := range []int{4, 4, 4, 9, 0} {
		got := 0
		if next := s.nextDNS(); next != nil {
			got = next.Replicas
		}
		if got != want {
			t.Errorf("with %d results: settings of the drill with %d replicas, want %d", reported, got, want)
		}
		s.report.Results = append(s.report.Results, reports.Entry{})
	}
	s.report.Results, s.Repeat = nil, 2
	if s.nextDNS() != nil {
		t.Error("a scenario that is repeated is followed by itself")
	}
}
