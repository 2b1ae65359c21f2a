package reports

import (
	"bytes"
	"html"
	"io"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// texts are the reports for people.
func texts(t *testing.T, r *Report) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, write := range map[string]func(io.Writer) error{JUnitFile: r.WriteJUnit, MarkdownFile: r.WriteMarkdown, YAMLFile: r.WriteYAML, HTMLFile: r.WriteHTML} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		out[name] = html.UnescapeString(b.String())
	}
	var b bytes.Buffer
	c := NewConsole(&b, len(r.Results))
	for _, e := range r.Results {
		c.End(e)
	}
	c.Summary(r)
	out["console"] = b.String()
	return out
}

// Each check that did not pass comes with what to change.
func TestTheFixIsInEveryReport(t *testing.T) {
	r := sampleReport()
	all := texts(t, r)
	for _, e := range r.notPassed() {
		for _, v := range e.Verdicts {
			fix := v.Fix()
			if (fix == "") != (v.Outcome == verdict.Pass) {
				t.Errorf("%s: the fix is %q", v.Check, fix)
			}
			for _, name := range []string{JUnitFile, MarkdownFile, HTMLFile, "console"} {
				if !strings.Contains(all[name], fix) {
					t.Errorf("%s does not have %q", name, fix)
				}
			}
		}
	}
}

// Why nothing was played is in every file, and the console does not repeat it for each drill.
func TestWhyTheRunEndedEarlyIsInEveryReport(t *testing.T) {
	const why = "set-up: start LocalStack: not enough memory"
	r := New(Folder{Path: "out/1"}, Handler{Name: "own"}, scenarios.Fast, nil)
	r.EndedEarly = why
	for _, name := range []string{"a", "b", "c"} {
		r.Add(NewEntry(verdict.NotRun(scenarios.Scenario{Name: name, Title: name, Profile: "SPOT"}, "the run ended before it: "+why)))
	}
	for name, text := range texts(t, r) {
		if !strings.Contains(text, why) {
			t.Errorf("%s does not have it:\n%s", name, text)
		}
	}
	var b bytes.Buffer
	NewConsole(&b, 3).Summary(r)
	if n := strings.Count(b.String(), why); n != 1 || !strings.Contains(b.String(), "3 of 3 drills not played; repeat the command") {
		t.Errorf("%d times:\n%s", n, b.String())
	}
	r.Results[0].History, r.Results[0].Verdicts[0].ID = "a/attempt-1", verdict.IDOfHarness
	b.Reset()
	NewConsole(&b, 3).Summary(r)
	if !strings.Contains(b.String(), "2 of 3 drills not played; to play them: spotdrill run --resume out/1") {
		t.Errorf("not how to go on:\n%s", b.String())
	}
}

// What broke the drill itself comes before the checks that it left unknown.
func TestWhatToLookAtFirst(t *testing.T) {
	unknown := func(id verdict.ID) verdict.Verdict {
		return verdict.Verdict{ID: id, Check: string(id), Outcome: verdict.Unknown}
	}
	for name, c := range map[string]struct {
		outcome  verdict.Outcome
		verdicts []verdict.Verdict
		want     verdict.ID
	}{
		"a failure":                       {verdict.Fail, []verdict.Verdict{unknown("drained"), {ID: "marked", Outcome: verdict.Fail}}, "marked"},
		"a failure, and a broken harness": {verdict.Fail, []verdict.Verdict{unknown("harness"), {ID: "marked", Outcome: verdict.Fail}}, "marked"},
		"a broken harness":                {verdict.Unknown, []verdict.Verdict{unknown("drained"), unknown("harness")}, "harness"},
		"unknown":                         {verdict.Unknown, []verdict.Verdict{{ID: "harness", Outcome: verdict.Pass}, unknown("drained")}, "drained"},
		"no verdicts":                     {verdict.Unknown, nil, "run"},
	} {
		if got := (Entry{Result: verdict.Result{Outcome: c.outcome, Verdicts: c.verdicts}}).First().ID; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
