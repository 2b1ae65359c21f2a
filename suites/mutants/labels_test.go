package mutants

import (
	"slices"
	"testing"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/suites/mutants/defects"
)

// A mutant is selected by the scenario and the check that must catch it.
func TestEveryMutantHasValidLabels(t *testing.T) {
	all, err := choose("mutants.yaml", "")
	if err != nil {
		t.Fatal(err)
	}
	known, err := defects.Load("mutants.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(known) {
		t.Errorf("%d of %d mutants are chosen", len(all), len(known))
	}
	for _, m := range all {
		for _, label := range m.labels() {
			if clean, err := types.ValidateAndCleanupLabel(label, types.CodeLocation{}); err != nil || clean != label {
				t.Errorf("%s: label %q: %v", m.Name, label, err)
			}
		}
		for _, want := range []string{"mutant:" + m.Name, "scenario:" + m.CaughtBy.Scenario, "check:" + string(m.CaughtBy.Check)} {
			if !slices.Contains(m.labels(), want) {
				t.Errorf("%s: labels %q lack %s", m.Name, m.labels(), want)
			}
		}
	}
}

func TestAnUnknownMutantIsAnError(t *testing.T) {
	if _, err := choose("mutants.yaml", "acts-on-running,no-such-mutant"); err == nil {
		t.Error("no error")
	}
	if chosen, err := choose("mutants.yaml", "acts-on-running"); err != nil || len(chosen) != 1 {
		t.Errorf("%d mutants (%v)", len(chosen), err)
	}
}

// Two mutants, and the original, differ by their binaries alone: none is taken for
// another that is installed already.
func TestAMutantIsAnotherHandler(t *testing.T) {
	original, err := handler.Load("builtin")
	if err != nil {
		t.Fatal(err)
	}
	mutant, other := original, original
	mutant.Binary, other.Binary = "one/spotdrill", "another/spotdrill"
	if mutant.Same(original) || mutant.Same(other) || !mutant.Same(mutant) {
		t.Error("a mutant is the same as another handler")
	}
}
