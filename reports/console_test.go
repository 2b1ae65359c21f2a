package reports

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/verdict"
)

func TestConsole(t *testing.T) {
	var b bytes.Buffer
	r := sampleReport()
	c := NewConsole(&b, len(r.Results))
	for i, e := range r.Results {
		c.Begin(e.Scenario, map[bool]time.Duration{true: 4 * time.Minute}[e.Outcome != verdict.Skipped])
		if i == 0 {
			c.Note("control: 1 of 9000 lost; once more")
		}
		c.End(e)
	}
	c.Summary(r)
	golden(t, "console.txt", b.Bytes())
	if !strings.HasSuffix(b.String(), "\n1 passed, 1 failed, 1 unknown, 1 skipped\n") {
		t.Error("the last line is not the counts")
	}
}

func TestConsolePrintsAllVerdicts(t *testing.T) {
	var b bytes.Buffer
	NewConsole(&b, 1).Verdicts(failed())
	golden(t, "verdicts.txt", b.Bytes())
}

func TestColoursAreForTerminals(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if NewConsole(file, 1).colour || NewConsole(&bytes.Buffer{}, 1).colour {
		t.Error("coloured without a terminal")
	}
	for o, want := range map[verdict.Outcome]string{verdict.Pass: "\x1b[32mpass\x1b[0m", verdict.Fail: "\x1b[31mfail\x1b[0m", "": "\x1b[33munknown\x1b[0m"} {
		if got := (&Console{colour: true}).paint(o); string(got) != want {
			t.Errorf("%q is painted %q", o, got)
		}
	}
}

// Whoever installed a handler wrongly reads why, and not seventeen times that nothing is known.
func TestAnErrorOfTheHarnessComesFirstAndOnce(t *testing.T) {
	t.Parallel()
	unknown := func(id verdict.ID, got string) verdict.Verdict {
		return verdict.Verdict{ID: id, Check: string(id), Outcome: verdict.Unknown, Want: "w", Got: got}
	}
	e := Entry{Result: verdict.Result{Outcome: verdict.Unknown, Verdicts: []verdict.Verdict{
		unknown("marked", "the history does not show it"),
		{ID: "restored", Check: "restored", Outcome: verdict.Pass},
		unknown(verdict.IDOfHarness, "the Deployment is not ready"), unknown("drained", "the history does not show it"),
	}}}
	var out strings.Builder
	writeFindings(&out, e, "")
	if got := out.String(); strings.Contains(got, "does not show") || !strings.HasPrefix(got, "harness: unknown\n  want: w\n  got:  the Deployment is not ready\n") ||
		!strings.HasSuffix(got, "\n2 other checks could not be evaluated then: marked, drained\n") {
		t.Error(got)
	}
}
