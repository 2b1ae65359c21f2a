package reports

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// During a drill, whether a check is decided is answered from the events alone. With the queries and
// flows, the answer is the same.
func TestQueriesDecideNothingDuringADrill(t *testing.T) {
	asked := 0
	for _, name := range corpusNames(t) {
		r := recordingOf(t, name)
		s, h := r.scenario, r.history
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
				t.Errorf("%s: %s is decided %t without the queries, %t with them", name, c.Kind, got, want)
			}
		}
	}
	if asked < 50 {
		t.Errorf("only %d checks of the corpus are decided before their time is over", asked)
	}
}
