package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
