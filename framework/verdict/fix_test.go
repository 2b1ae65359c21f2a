package verdict

import (
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// A check that fails with nothing to be done about it helps nobody, and advice for
// a check that is no more misleads.
func TestEveryCheckSaysWhatToDo(t *testing.T) {
	all, err := scenarios.Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, s := range all {
		verdicts := Judge(s, history.History{}).Verdicts
		// These need a handler whose rights and commit point are known.
		verdicts = append(verdicts, Verdict{Check: "no RBAC wildcard", Want: "none"}, Verdict{Check: "commit point", Want: "kept"}, Verdict{Check: "losses explained", Want: "all"})
		for _, v := range verdicts {
			fix := Fix(v.Check)
			if fix == "" || v.Want == "" {
				t.Errorf("%s: check %q wants %q, and to mend it one would %q", s.Name, v.Check, v.Want, fix)
			}
			used[fix] = true
		}
	}
	for _, f := range fixes {
		if !used[f.fix] {
			t.Errorf("no clause has a check %q", f.check)
		}
	}
	if got := Fix("drained once victim"); !strings.HasPrefix(got, "remember on the node") {
		t.Errorf("a drain that was done twice is mended by: %s", got)
	}
	if got := Fix("no such check"); got != "" {
		t.Errorf("advice for a check that does not exist: %s", got)
	}
}

// What looks at a drill before the cluster is put back must not take the missing
// end for a finding.
func TestAheadLeavesTheEndOut(t *testing.T) {
	story := drainStory()
	s, h := story.scenario, story.history()
	whole := Judge(s, h)
	if whole.Outcome != Pass {
		t.Fatalf("the drill to begin with: %+v", whole)
	}
	for i, e := range h.Events {
		if e.Kind == history.RunPhase && e.Key == "restore" {
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
