package reports

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

func TestMarkdown(t *testing.T) {
	var b bytes.Buffer
	if err := sampleReport().WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "summary.md", b.Bytes())
}

// What a handler wrote into a verdict must not become part of the page of a CI job.
func TestMarkdownShowsTextAsText(t *testing.T) {
	r := New(Folder{}, Handler{Name: "own"}, scenarios.Fast, nil)
	v := verdict.Verdict{Check: "marked", Outcome: verdict.Fail, Want: "a | b", Got: "<img src=x onerror=y>\n| `c` | *d*_e_"}
	r.Add(NewEntry(verdict.Result{Scenario: "a", Title: "a\n# b", Profile: "SPOT", Outcome: verdict.Fail, Verdicts: []verdict.Verdict{v}}))
	var b bytes.Buffer
	if err := r.WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{"<img", "\n# b", "| 'c' |", "*d*", "_e_", "`c`"} {
		if strings.Contains(strings.ReplaceAll(b.String(), `\*`, ""), wrong) {
			t.Errorf("%q is in\n%s", wrong, b.String())
		}
	}
	for _, row := range strings.Split(b.String(), "\n") {
		if strings.HasPrefix(row, "| marked") && strings.Count(strings.ReplaceAll(row, `\|`, ""), "|") != 5 {
			t.Errorf("not a row of four cells: %s", row)
		}
	}
}

func TestBadge(t *testing.T) {
	for name, c := range map[string]struct {
		counts Counts
		color  string
	}{
		"all passed":           {Counts{Passed: 2, Total: 2}, "brightgreen"},
		"one failed":           {Counts{Passed: 2, Failed: 1, Total: 3}, "red"},
		"one is unknown":       {Counts{Passed: 2, Unknown: 1, Total: 3}, "orange"},
		"everything skipped":   {Counts{Skipped: 2, Total: 2}, "orange"},
		"nothing was played":   {Counts{}, "orange"},
		"failed, then unknown": {Counts{Failed: 1, Unknown: 1, Total: 2}, "red"},
	} {
		r := Report{Handler: Handler{Name: "nth"}, Summary: c.counts}
		var b bytes.Buffer
		if err := r.WriteBadge(&b); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"schemaVersion": 1`, `"label": "spotdrill nth"`, `"message": "` + c.counts.String() + `"`, `"color": "` + c.color + `"`} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: %s is not in %s", name, want, b.String())
			}
		}
	}
}
