package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/reports"
)

const savedRun = "../../reports/testdata/run"

func TestJudgeCommand(t *testing.T) {
	cmd := newJudgeCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true // as the root command does
	run := t.TempDir()
	if err := os.CopyFS(run, os.DirFS(savedRun)); err != nil {
		t.Fatal(err)
	}
	var out, log strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(&log)
	cmd.SetArgs([]string{run})
	err := cmd.Execute()
	if exitCode(err) != exitFailed || err.Error() != "1 of 1 scenario failed" {
		t.Errorf("error %v", err)
	}
	want, err := os.ReadFile("../../reports/testdata/judged.txt")
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want)+"0 passed, 1 failed\n" {
		t.Errorf("printed:\n%s", out.String())
	}
	page := filepath.Join(run, reports.HTMLFile)
	if _, err := os.Stat(page); err != nil || log.String() != page+"\n" {
		t.Errorf("the page is not replaced (%v), or reported as %q", err, log.String())
	}
}

func TestJudgeCommandErrors(t *testing.T) {
	for name, args := range map[string][]string{
		"no such folder": {filepath.Join(savedRun, "none")}, "no history": {t.TempDir()},
	} {
		cmd := newJudgeCommand()
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		cmd.SetArgs(args)
		err := cmd.Execute()
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if exitCode(err) != exitUsage {
			t.Errorf("%s: exit code %d", name, exitCode(err))
		}
	}
}

func TestJudged(t *testing.T) {
	for _, c := range []struct {
		counts reports.Counts
		want   int
	}{
		{reports.Counts{Passed: 3, Skipped: 1, Total: 4}, 0},
		{reports.Counts{Passed: 3, Unknown: 1, Total: 4}, exitUnknown},
		{reports.Counts{Failed: 1, Unknown: 1, Total: 2}, exitFailed},
		{reports.Counts{Skipped: 2, Total: 2}, exitUnknown},
	} {
		if got := exitCode(judged(c.counts)); got != c.want {
			t.Errorf("%s: exit code %d, want %d", c.counts, got, c.want)
		}
	}
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	return codeOf(err)
}
