package labels

import (
	"slices"
	"strings"
	"testing"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

func catalogue(t *testing.T) []scenarios.Scenario {
	t.Helper()
	all, err := verdict.Scenarios().Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Ginkgo panics on a label that it cannot filter by.
func TestEveryScenarioHasValidLabels(t *testing.T) {
	for _, s := range catalogue(t) {
		kinds := map[string]int{}
		for _, label := range Of(s) {
			clean, err := types.ValidateAndCleanupLabel(label, types.CodeLocation{})
			if err != nil || clean != label {
				t.Errorf("%s: label %q: %v", s.Name, label, err)
			}
			kind, _, _ := strings.Cut(label, ":")
			kinds[kind]++
		}
		if kinds["scenario"] != 1 || kinds["profile"] != 1 || kinds["set"] == 0 || kinds["core"]+kinds["extended"] != 1 {
			t.Errorf("%s: labels %q", s.Name, Of(s))
		}
	}
}

// Each filter selects what a reader expects of it, and something.
func TestFilters(t *testing.T) {
	has := func(s scenarios.Scenario, set scenarios.Set) bool { return slices.Contains(s.Sets, set) }
	for filter, want := range map[string]func(scenarios.Scenario) bool{
		"":                                   func(scenarios.Scenario) bool { return true },
		"profile:PDB":                        func(s scenarios.Scenario) bool { return s.Profile == "PDB" },
		"profile:PDB && !set:fast":           func(s scenarios.Scenario) bool { return s.Profile == "PDB" && !has(s, scenarios.Fast) },
		"core && set:fast":                   func(s scenarios.Scenario) bool { return s.Core() && has(s, scenarios.Fast) },
		"extended":                           func(s scenarios.Scenario) bool { return !s.Core() },
		"feature:spot":                       func(s scenarios.Scenario) bool { return s.Feature == "spot" },
		"feature: isEmpty":                   func(s scenarios.Scenario) bool { return s.Feature == "" },
		"profile: containsAny {SPOT, STORM}": func(s scenarios.Scenario) bool { return s.Profile == "SPOT" || s.Profile == "STORM" },
		"scenario:spot-notice-drains-node":   func(s scenarios.Scenario) bool { return s.Name == "spot-notice-drains-node" },
		"/coredns/":                          func(s scenarios.Scenario) bool { return strings.Contains(s.Name, "coredns") },
	} {
		selected, err := filtered(filter, catalogue(t), Of)
		if err != nil {
			t.Error(err)
		}
		for _, s := range catalogue(t) {
			in := slices.ContainsFunc(selected, func(o scenarios.Scenario) bool { return o.Name == s.Name })
			if in != want(s) {
				t.Errorf("%q: %s is selected: %t, want %t", filter, s.Name, in, want(s))
			}
		}
	}
}

func TestAFilterThatCannotBeMeant(t *testing.T) {
	for filter, want := range map[string]string{
		"profile:SPOT &&": "--ginkgo.label-filter", // an operand is missing
		"profile:SPOTS":   "selects nothing",
	} {
		if _, err := filtered(filter, catalogue(t), Of); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", filter, err, want)
		}
	}
}

// A spec about several scenarios is selected with any of them.
func TestLabelsOfAll(t *testing.T) {
	all := catalogue(t)[:2]
	for _, s := range all {
		for _, label := range Of(s) {
			if !slices.Contains(OfAll(all), label) {
				t.Errorf("%q is missing in %q", label, OfAll(all))
			}
		}
	}
}
