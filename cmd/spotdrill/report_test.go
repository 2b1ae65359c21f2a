package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
