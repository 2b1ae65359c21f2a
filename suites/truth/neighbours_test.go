package main

import (
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports"
)

func TestANeighbourMustNotChangeAVerdict(t *testing.T) {
	pass, fail, unknown := outcome{verdict.Pass, ""}, outcome{verdict.Fail, "marked: after 9 s"}, outcome{verdict.Unknown, "proxy"}
	for name, c := range map[string]struct {
		alone    outcome
		together []outcomes
		want     string // the last line, and the error
	}{
		"as alone":        {pass, []outcomes{{"a": pass}, {"a": pass}}, "of 2 plays in lanes, 2 came out as alone, 0 are unknown in one of both, 0 differ"},
		"fails in a lane": {pass, []outcomes{{"a": pass}, {"a": fail}}, "of 2 plays in lanes, 1 came out as alone, 0 are unknown in one of both, 1 differ; a neighbour has changed a verdict"},
		"fails alone":     {fail, []outcomes{{"a": pass}}, "of 1 plays in lanes, 0 came out as alone, 0 are unknown in one of both, 1 differ; a neighbour has changed a verdict"},
		"sometimes shows": {pass, []outcomes{{"a": pass}, {"a": unknown}, {}}, "of 3 plays in lanes, 1 came out as alone, 2 are unknown in one of both, 0 differ"},
		"never shows":     {unknown, []outcomes{{"a": unknown}}, "of 1 plays in lanes, 0 came out as alone, 1 are unknown in one of both, 0 differ; no play shows whether a neighbour changes a verdict"},
	} {
		var text strings.Builder
		err := compared(&text, outcomes{"a": c.alone}, c.together)
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		got := lines[len(lines)-1]
		if err != nil {
			got += "; " + err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// What did not pass in a lane is played again alone: the first outcome is the one to compare.
func TestTheOutcomeInALane(t *testing.T) {
	entry := func(name string, outcome verdict.Outcome, lane string) reports.Entry {
		return reports.Entry{Result: verdict.Result{Scenario: name, Outcome: outcome}, LaneAttempt: lane}
	}
	got := outcomesOf(&reports.Report{Results: []reports.Entry{
		entry("passed", verdict.Pass, ""),
		entry("again", verdict.Pass, "fail in lane 3: marked"),
	}})
	if got["passed"].Outcome != verdict.Pass || got["again"] != (outcome{verdict.Fail, "fail in lane 3: marked"}) {
		t.Errorf("%v", got)
	}
}
