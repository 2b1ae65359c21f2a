package main

import (
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/verdict"
)

// Every check of every drill is explained with the fix of its own kind.
func TestExplainHasTheFixOfEachCheck(t *testing.T) {
	all, err := verdict.Scenarios().Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	live, err := verdict.Scenarios().Live()
	if err != nil {
		t.Fatal(err)
	}
	// A word that only the fix of this kind has.
	words := map[string]string{
		"dnsLost": "lameduck", "dnsWindow": "lameduck", "dnsAnswered": "lameduck", "applicationLost": "preStop", "applicationWindow": "preStop",
		"marked": "cordon or taint", "drained": "Eviction API", "deleted": "delete a message", "noEviction": "nothing drains", "budgetKept": "budgets",
		"recordingComplete": "cut short", "restored": "put back", "prober": "on time", "control": "too busy", "baseline": "before the first notice",
	}
	for _, s := range append(all, live...) {
		checks := explain(s, s.Name).Checks
		if len(checks) == 0 {
			t.Errorf("%s: no checks", s.Name)
		}
		for _, c := range checks {
			kind, ok := verdict.KindOf(verdict.ID(c.ID))
			if !ok || c.Fix != kind.FixOf(verdict.ID(c.ID)) || c.Fix == "" {
				t.Errorf("%s: %s is fixed by %q", s.Name, c.ID, c.Fix)
			}
			if word := words[c.ID]; !strings.Contains(c.Fix, word) {
				t.Errorf("%s: the fix of %s is %q: want %q in it", s.Name, c.ID, c.Fix, word)
			}
		}
	}
}
