package verdict

import (
	"strings"
	"testing"
)

// What to change is of the check itself; if it could not be evaluated, of what prevents that.
func TestWhatToChange(t *testing.T) {
	for name, c := range map[string]struct {
		verdict Verdict
		has     string
	}{
		"a failed check":               {Verdict{ID: "drained", Outcome: Fail}, "evict every pod"},
		"one of several verdicts":      {Verdict{ID: "markKept", Outcome: Fail}, "leave the mark"},
		"lost queries":                 {Verdict{ID: IDOfDNSLost, Outcome: Fail}, "lameduck"},
		"lost requests":                {Verdict{ID: "applicationLost", Outcome: Fail}, "preStop"},
		"a premise":                    {Verdict{ID: IDOfDNSLost, Outcome: Unknown, Premise: "prober"}, "send queries on time"},
		"noise":                        {Verdict{ID: IDOfDNSLost, Outcome: Unknown, Noise: true}, "too busy to measure"},
		"unknown":                      {Verdict{ID: "drained", Outcome: Unknown}, "play the drill again; if it fails then, evict"},
		"no outcome":                   {Verdict{ID: "drained"}, "play the drill again"},
		"unknown, about the recording": {Verdict{ID: "recordingComplete", Outcome: Unknown}, "the run was cut short"},
		"nothing was played":           {Verdict{ID: IDOfRun, Outcome: Unknown}, "why there is no history"},
		"passed":                       {Verdict{ID: "drained", Outcome: Pass}, ""},
		"skipped":                      {Verdict{ID: "applies", Outcome: Skipped}, ""},
		"a check that this version does not have": {Verdict{ID: "of-another-version", Outcome: Fail}, ""},
	} {
		if got := c.verdict.Fix(); !strings.Contains(got, c.has) || (got == "") != (c.has == "") {
			t.Errorf("%s: %q, want %q in it", name, got, c.has)
		}
	}
}

// No fix of a verdict is missing, or of a verdict that its kind does not have.
func TestFixesAreOfVerdictsThatThereAre(t *testing.T) {
	for _, k := range Kinds() {
		for id := range k.Fixes {
			if of, ok := KindOf(id); !ok || of.ID != k.ID {
				t.Errorf("%s has a fix of %s", k.ID, id)
			}
		}
		for _, id := range k.IDs() {
			if fix := k.FixOf(id); fix == "" || strings.HasSuffix(fix, ".") {
				t.Errorf("%s: %q", id, fix)
			}
		}
	}
}
