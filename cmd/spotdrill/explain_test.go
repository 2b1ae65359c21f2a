package main

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// loadedCatalogue is loaded once for all tests. They only read it.
var loadedCatalogue = sync.OnceValues(func() ([]scenarios.Scenario, error) { return verdict.Scenarios().Catalogue() })

func catalogue(t *testing.T) []scenarios.Scenario {
	t.Helper()
	all, err := loadedCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(all)
}

// Every check of every drill is explained with the fix of its own kind, and a handler of ours plays each drill.
func TestExplainHasTheFixOfEachCheck(t *testing.T) {
	all := catalogue(t)
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
		explained, err := explain(s, s.Name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(explained.PlayedBy, "my-handler") {
			t.Errorf("%s: no handler of ours plays it", s.Name)
		}
		if len(explained.Steps) == 0 || slices.Contains(explained.Steps, "") {
			t.Errorf("%s: what happens is %q", s.Name, explained.Steps)
		}
		for what, text := range map[string]string{"title": explained.Title, "why": explained.Why, "source": explained.Source, "command": explained.PlayedBy} {
			if strings.TrimSpace(text) == "" {
				t.Errorf("%s: no %s", s.Name, what)
			}
		}
		checks := explained.Checks
		if len(checks) == 0 {
			t.Errorf("%s: no checks", s.Name)
		}
		for _, c := range checks {
			kind, ok := verdict.KindOf(verdict.ID(c.ID))
			if !ok || c.Fix != kind.FixOf(verdict.ID(c.ID)) || c.Fix == "" {
				t.Errorf("%s: %s is fixed by %q", s.Name, c.ID, c.Fix)
			}
			if c.Want == "" || c.Check == "" {
				t.Errorf("%s: %s requires %q", s.Name, c.ID, c.Want)
			}
			if word := words[c.ID]; !strings.Contains(c.Fix, word) {
				t.Errorf("%s: the fix of %s is %q: want %q in it", s.Name, c.ID, c.Fix, word)
			}
		}
	}
}

// The command that explain prints plays the drill: a handler that skips it shows nothing.
func TestExplainPrintsACommandThatPlays(t *testing.T) {
	for name, want := range map[string]string{
		"spot-notice-drains-node":         "spotdrill run spot-notice-drains-node",
		"coredns-lost-without-queue":      "",
		"half-an-hour-of-foreign-notices": "spotdrill run --set soak half-an-hour-of-foreign-notices",
	} {
		out, stderr, code := spotdrill(t, "explain", name)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d, want %q in %s%s", name, code, want, out, stderr)
		}
	}
}

// What the drill needs of the cluster is explained in words, and in JSON too.
func TestExplainAndListShowWhatADrillNeeds(t *testing.T) {
	for name, wants := range map[string][]string{
		"spot-notice-drains-node":           {"1 spot node for itself: the drill acts on victim", "CoreDNS, shared with drills of the same settings (lameduck 5s", "the queue, shared\n"},
		"killed-handler-finishes-the-drain": {"the handler for itself: crash: the handler is killed"},
		"slow-queue-is-outlived":            {"the queue for itself: fault"},
		"coredns-drained-lameduck-5s":       {"the machine for itself: queries are measured", "CoreDNS for itself: victim runs CoreDNS", "; real: queries are measured"},
		"bare-pod-is-evicted":               {"; virtual is enough"},
	} {
		out, stderr, _ := spotdrill(t, "explain", name)
		_, needs, _ := strings.Cut(out, "what it needs of the cluster:\n")
		for _, want := range wants {
			if !strings.Contains(needs, want) {
				t.Errorf("%s: want %q in %s%s", name, want, needs, stderr)
			}
		}
	}
	var all []struct {
		Name   string
		Claims []struct{ Resource, Mode, Because, RealBecause string }
	}
	if err := json.Unmarshal([]byte(list(t, "--set", "full", "--json")), &all); err != nil || len(all) == 0 {
		t.Fatalf("%d scenarios, error %v", len(all), err)
	}
	for _, s := range all {
		quiet := slices.ContainsFunc(s.Claims, func(c struct{ Resource, Mode, Because, RealBecause string }) bool {
			return c.Resource == "quiet-machine" && c.Mode == "exclusive" && c.Because != ""
		})
		i := slices.IndexFunc(catalogue(t), func(o scenarios.Scenario) bool { return o.Name == s.Name })
		if i < 0 || quiet != (catalogue(t)[i].Probe != nil || catalogue(t)[i].Fleet != nil) || len(s.Claims) < len(scenarios.Resources())-1 {
			t.Errorf("%s: claims %+v", s.Name, s.Claims)
		}
	}
}

// What the drill sets is part of the explanation.
func TestExplainShowsTheSettings(t *testing.T) {
	for name, wants := range map[string][]string{
		"coredns-drained-lameduck-5s":             {"what is arranged:", "CoreDNS: lameduck 5s", "coredns:", "deadline:"},
		"budget-that-blocks-for-ever-is-reported": {"workload:", "budgets:"},
	} {
		out, stderr, _ := spotdrill(t, "explain", name)
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("%s: want %q in %s%s", name, want, out, stderr)
			}
		}
	}
}
