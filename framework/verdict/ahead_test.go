package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
)

// What looks at a drill before the cluster is put back must not take the missing
// end for a finding.
func TestAheadLeavesTheEndOut(t *testing.T) {
	drill := drainStory()
	s, h := drill.scenario, drill.history()
	whole := Judge(s, h)
	if whole.Outcome != Pass {
		t.Fatalf("the drill to begin with: %+v", whole)
	}
	for i, e := range h.Events {
		if history.Restore.BegunBy(e) {
			h.Events = h.Events[:i+1]
			break
		}
	}
	h.Complete, h.Damage = false, "cut short"
	if got := Judge(s, h).Outcome; got != Unknown {
		t.Errorf("judged without its end: %s", got)
	}
	if got := Ahead(s, h); got.Outcome != Pass || len(got.Verdicts) != len(whole.Verdicts)-2 {
		t.Errorf("judged ahead: %s by %d checks, %d with the end", got.Outcome, len(got.Verdicts), len(whole.Verdicts))
	}
}
