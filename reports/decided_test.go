package reports

import (
	"path/filepath"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// During a drill, whether a check is decided is answered from the events alone. With the queries and
// flows, the answer is the same.
func TestQueriesDecideNothingDuringADrill(t *testing.T) {
	packed, err := filepath.Glob(filepath.Join(corpus, "*.tar.gz"))
	if err != nil || len(packed) == 0 {
		t.Fatalf("no recorded drill in %s: %v", corpus, err)
	}
	asked := 0
	for _, file := range packed {
		dir := t.TempDir()
		if err := unpack(file, dir); err != nil {
			t.Fatal(err)
		}
		h, err := history.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		s, err := verdict.Scenarios().LoadRecorded(ScenarioFile(dir, h.Meta.Scenario))
		if err != nil {
			t.Fatal(err)
		}
		var early []scenarios.Check
		for _, c := range s.Checks {
			if c.DecidedBy(s.Times(h.Events)).Early {
				early = append(early, c)
			}
		}
		for _, c := range early {
			asked++
			events := history.History{Meta: h.Meta, Events: h.Events}
			if got, want := verdict.Decided(s, events, []scenarios.Check{c}), verdict.Decided(s, h, []scenarios.Check{c}); got != want {
				t.Errorf("%s: %s is decided %t without the queries, %t with them", filepath.Base(file), c.Kind, got, want)
			}
		}
	}
	if asked < 50 {
		t.Errorf("only %d checks of the corpus are decided before their time is over", asked)
	}
}
