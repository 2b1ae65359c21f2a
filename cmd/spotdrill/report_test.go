package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/reports"
)

func TestReportHTMLCommand(t *testing.T) {
	for name, c := range map[string]struct {
		files   []string
		missing bool
		code    int
	}{
		"with its histories":       {[]string{"run"}, false, 0},
		"of report.yaml alone":     {[]string{"report.yaml"}, true, 0},
		"of one of the histories":  {[]string{"run", "report.yaml"}, true, 0},
		"neither report nor drill": {nil, false, exitUsage},
	} {
		dir := t.TempDir()
		for _, file := range c.files {
			from := filepath.Join("../../reports/testdata", file)
			var err error
			if filepath.Ext(file) == "" {
				err = os.CopyFS(dir, os.DirFS(from))
			} else if text, unread := os.ReadFile(from); unread == nil {
				err = os.WriteFile(filepath.Join(dir, file), text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		var log strings.Builder
		cmd := newReportCommand()
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetErr(&log)
		cmd.SetArgs([]string{"html", dir})
		if err := cmd.Execute(); exitCode(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
		page, err := os.ReadFile(filepath.Join(dir, reports.HTMLFile))
		if (err == nil) != (c.code == 0) || strings.Contains(log.String(), "missing") != c.missing || strings.Contains(string(page), "are missing") != c.missing {
			t.Errorf("%s: %v, %s", name, err, log.String())
		}
	}
}

func TestReportVerifyCommand(t *testing.T) {
	malformed := filepath.Join(t.TempDir(), "report.yaml")
	if err := os.WriteFile(malformed, []byte("apiVersion: spotdrill.dev/v1alpha1\nkind: DrillReport\nlucky: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file string
		code int
		want string
	}{
		"malformed":    {malformed, exitFailed, `:3: unknown field "lucky"`},
		"no such file": {filepath.Join(t.TempDir(), "none.yaml"), exitUsage, "no such file"},
	} {
		cmd := newReportCommand()
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetOut(io.Discard)
		cmd.SetArgs([]string{"verify", c.file})
		err := cmd.Execute()
		if exitCode(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v (exit code %d)", name, err, exitCode(err))
		}
	}
}
