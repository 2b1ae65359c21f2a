package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/reports"
)

const savedReport = "../../reports/testdata/report.yaml"

func TestCompareCommand(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"a table": {[]string{savedReport, savedReport}, []string{"SCENARIO", "A", "B", "spot-notice-drains-node", "B: builtin 0.1.0"}},
		"as JSON": {[]string{"--json", savedReport}, []string{`"scenario": "spot-notice-drains-node"`, `"outcome": "fail"`}},
		"of one":  {[]string{savedReport}, []string{"A: builtin 0.1.0, set fast, run 20260102-150405: 1 passed, 1 failed, 1 unknown, 1 skipped"}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newCompareCommand()
			var out strings.Builder
			cmd.SetOut(&out)
			cmd.SetArgs(c.args)
			if err := cmd.Execute(); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in:\n%s", want, out.String())
				}
			}
		})
	}
}

func TestCompareCommandErrors(t *testing.T) {
	for name, args := range map[string][]string{
		"no such file": {filepath.Join(t.TempDir(), "none.yaml")}, "no report": {"compare.go"},
	} {
		cmd := newCompareCommand()
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetOut(io.Discard)
		cmd.SetArgs(args)
		if err := cmd.Execute(); exitCode(err) != exitUsage {
			t.Errorf("%s: %v (exit code %d)", name, err, exitCode(err))
		}
	}
}

// edited leaves the saved report in a folder, with one text in place of another
// wherever that stands, and returns the file.
func edited(t *testing.T, dir, before, after string) string {
	t.Helper()
	text, err := os.ReadFile(savedReport)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.ReplaceAll(string(text), before, after)
	if changed == string(text) {
		t.Fatalf("%q is not in %s", before, savedReport)
	}
	file := filepath.Join(dir, "report.yaml")
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The page shows reports side by side, or nights as marks.
func TestComparePage(t *testing.T) {
	nights := t.TempDir()
	edited(t, nights, "run: 20260102-150405", "run: night-1")
	page := filepath.Join(t.TempDir(), "page.html")
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"two runs":       {[]string{savedReport, filepath.Join(nights, "report.yaml"), "--html", page}, 0, "1 of 4 scenarios do not have the same outcome in every report"},
		"nights":         {[]string{savedReport, "--against", nights, "--at-least", "1", "--html", page}, 0, "in all of 2 nights"},
		"no such folder": {[]string{savedReport, "--html", filepath.Join(page, "none", "page.html")}, exitUsage, ""},
	} {
		_ = os.Remove(page)
		stdout, stderr, code := spotdrill(t, append([]string{"compare"}, c.args...)...)
		text, err := os.ReadFile(page)
		if code != c.code || c.want != "" && (err != nil || !strings.Contains(string(text), c.want) || !strings.Contains(stderr, page)) {
			t.Errorf("%s: exit code %d, want %d, and %q in the page; %v\n%s%s", name, code, c.code, c.want, err, stdout, stderr)
		}
	}
}

// A handler is judged by what is known of it: what it breaks, it may go on to break.
func TestCompareHoldsOutcomesToEachOther(t *testing.T) {
	known := edited(t, t.TempDir(), "    outcome: unknown\n    verdicts", "    outcome: pass\n    verdicts")
	for name, c := range map[string]struct {
		args  []string
		code  int
		shown string
	}{
		"alike, failures included": {[]string{known, known}, 0, ""},
		"one passes now":           {[]string{known, savedReport}, exitFailed, "1 of 4 scenarios do not have the same outcome in every report: state-stopping-drains-node"},
		"unknown in both":          {[]string{savedReport, savedReport}, exitFailed, "1 of 4 scenarios do not have the same outcome in every report: state-stopping-drains-node"},
		"one is not there":         {[]string{known, edited(t, t.TempDir(), "scenario: spot-notice-drains-node\n    title", "scenario: another\n    title")}, exitFailed, "spot-notice-drains-node"},
		"one report":               {[]string{known}, exitUsage, "one is given"},
		"with --against":           {[]string{known, "--against", known}, exitUsage, "use only one of them"},
	} {
		stdout, stderr, code := spotdrill(t, append([]string{"compare", "--same"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.shown) {
			t.Errorf("%s: exit code %d, want %d and %q; printed\n%s%s", name, code, c.code, c.shown, stdout, stderr)
		}
	}
}

// The sample's own copies are the nights: what passed is as ever, and one night is
// too few.
func TestCompareAgainstEarlierNights(t *testing.T) {
	nights := t.TempDir()
	for i := range 3 {
		dir := filepath.Join(nights, fmt.Sprint(i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		edited(t, dir, "run: 20260102-150405", fmt.Sprintf("run: night-%d", i))
	}
	slow := edited(t, t.TempDir(), "window_fresh_max_ms: 1300.25", "window_fresh_max_ms: 9300.25")
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"steady":      {[]string{savedReport, "--against", nights, "--at-least", "3"}, 0, "1 figure steady, 0 warnings, 0 drifted"},
		"drifted":     {[]string{slow, "--against", nights, "--at-least", "3"}, exitFailed, "drifted  coredns-drained-lameduck-0s  window max 9300.250 ms  1300.250 ms"},
		"too few":     {[]string{savedReport, "--against", nights}, exitUnknown, "1 with fewer than 20 earlier nights"},
		"as JSON":     {[]string{slow, "--against", nights, "--at-least", "3", "--json"}, exitFailed, `"state": "drifted"`},
		"two reports": {[]string{savedReport, savedReport, "--against", nights}, exitUsage, ""},
		"no folder":   {[]string{savedReport, "--against", "none"}, exitUsage, ""},
	} {
		stdout, stderr, code := spotdrill(t, append([]string{"compare"}, c.args...)...)
		if code != c.code || !strings.Contains(stdout, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q; printed\n%s%s", name, code, c.code, c.want, stdout, stderr)
		}
	}
}

// What a change made worse is reported only if it is proven, and what is not known is never equal.
func TestCompareWithThePlaysBefore(t *testing.T) {
	at := func(run, from, to string) string { // a report of a run of its own
		file := edited(t, t.TempDir(), from, to)
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "run: 20260102-150405", "run: "+run)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	passing, known := at("passing", "outcome: fail", "outcome: pass"), at("known", "outcome: unknown", "outcome: pass")
	alike := at("alike", "outcome: unknown", "outcome: pass")
	var better, worse []string
	for n := range 4 {
		better = append(better, at(fmt.Sprintf("better-%d", n), "outcome: fail", "outcome: pass"))
		worse = append(worse, at(fmt.Sprintf("worse-%d", n), "outcome: unknown", "outcome: pass"))
	}
	before := func(files []string, args ...string) []string {
		for _, file := range files {
			args = append(args, "--before", file)
		}
		return args
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"alike":         {[]string{known, "--before", alike}, exitUnknown, "no difference seen"},
		"itself":        {[]string{known, "--before", known}, exitUnknown, "it was not played before"},
		"unknown":       {[]string{savedReport, "--before", passing}, exitUnknown, "no play of one side could be judged"},
		"not proven":    {[]string{savedReport, "--before", passing}, exitUnknown, "not proven: passed 1 of 1 before, 0 of 1 after; plays needed: 4 of each"},
		"one run often": {append(slices.Repeat([]string{savedReport}, 4), before(slices.Repeat([]string{passing}, 4))...), exitUnknown, "passed 1 of 1 before, 0 of 1 after"},
		"worse":         {before(better, worse...), exitFailed, "spot-notice-drains-node: marked victim: worse: passed 4 of 4 before, 0 of 4 after (p = 0.029)"},
		"better":        {before(worse, better...), exitUnknown, "spot-notice-drains-node: marked victim: better: passed 0 of 4 before, 4 of 4 after (p = 0.029)"},
		"as JSON":       {[]string{savedReport, "--before", passing, "--json"}, exitUnknown, `"state": "not proven"`},
		"with --same":   {[]string{savedReport, "--before", passing, "--same"}, exitUsage, ""},
		"no folder":     {[]string{savedReport, "--before", "none"}, exitUsage, ""},
	} {
		stdout, stderr, code := spotdrill(t, append([]string{"compare"}, c.args...)...)
		if code != c.code || !strings.Contains(stdout, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q; printed\n%s%s", name, code, c.code, c.want, stdout, stderr)
		}
	}
}

func TestTheExitCodeOfChanges(t *testing.T) {
	pass, fail := reports.Plays{Passed: 1}, reports.Plays{Failed: 1}
	change := func(state reports.ChangeState, before, after reports.Plays) reports.Change {
		return reports.Change{State: state, Before: before, After: after}
	}
	alike := change(reports.Alike, pass, pass)
	for name, c := range map[string]struct {
		checks []reports.Change
		code   int
	}{
		"alike":              {[]reports.Change{alike}, 0},
		"better":             {[]reports.Change{alike, change(reports.Better, fail, pass)}, 0},
		"may be better":      {[]reports.Change{alike, change(reports.NotProven, fail, pass)}, 0},
		"may be worse":       {[]reports.Change{alike, change(reports.NotProven, pass, fail)}, exitUnknown},
		"unknown":            {[]reports.Change{alike, change(reports.Unjudged, pass, reports.Plays{Unknown: 1})}, exitUnknown},
		"worse":              {[]reports.Change{alike, change(reports.Worse, pass, fail)}, exitFailed},
		"worse, and unknown": {[]reports.Change{change(reports.Unjudged, pass, reports.Plays{}), change(reports.Worse, pass, fail)}, exitFailed},
		"nothing was played": {nil, exitUnknown},
	} {
		if got := exitCode(worsened(reports.Changes{Checks: c.checks})); got != c.code {
			t.Errorf("%s: exit code %d, want %d", name, got, c.code)
		}
	}
}
