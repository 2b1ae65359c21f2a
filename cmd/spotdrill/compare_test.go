package main

import (
	"io"
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
