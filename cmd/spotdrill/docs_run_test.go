package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// harmless describes how a command of the docs is given here: as it stands, or so that it
// only describes what it would do. Ok is false for those that need a cluster, an engine or
// a network, which their own tests and the drills give.
func (c command) harmless() (args []string, ok bool) {
	args = c.words[1:]
	if strings.Join(args[:min(2, len(args))], " ") == "report merge" {
		return nil, false // the histories of several shards are in reports/merge_test.go
	}
	switch args[0] {
	case "list", "explain", "judge", "compare", "report":
		return args, true
	case "run", "sweep", "send":
		if !slices.Contains(args, "--dry-run") {
			args = append(slices.Clone(args), "--dry-run")
		}
		return args, true
	}
	return nil, false
}

// A reader who has what a page speaks of, and gives its commands, gets what they are
// for: no wrong usage, and nothing broken.
func TestCommandsInTheDocsRun(t *testing.T) {
	var commands []command
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(page, ".md") {
			commands = append(commands, commandsOf(page, string(text))...)
		}
	}
	goWhereTheDocsAre(t)
	given := map[string]bool{}
	for _, c := range commands {
		if c.words[0] != "spotdrill" || c.named && len(c.words) < 3 {
			continue
		}
		args, ok := c.harmless()
		if line := strings.Join(args, " "); !ok || given[line] {
			continue
		} else {
			given[line] = true
		}
		stdout, stderr, code := spotdrill(t, args...)
		if code == exitUsage || code == exitHarness || stdout == "" && stderr == "" {
			t.Errorf("%s: %s: exit code %d: %s%s", c.where, strings.Join(c.words, " "), code, stdout, stderr)
		}
	}
	if len(given) < 30 {
		t.Errorf("only %d commands were given", len(given))
	}
}

// goWhereTheDocsAre changes to a folder with the files that the pages speak of.
func goWhereTheDocsAre(t *testing.T) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for to, from := range map[string]string{
		"path/to":    "framework/handler/descriptions/builtin",
		"my-handler": "docs/examples/my-handler",
		"reports/out/20260102-150405/spot-notice-drains-node": "reports/testdata/run/dns-lost-at-exit",
		"reports/published": "reports/published",
		"scenarios/sweeps":  "scenarios/sweeps",
	} {
		if err := os.CopyFS(filepath.Join(dir, to), os.DirFS(filepath.Join(root, from))); err != nil {
			t.Fatal(err)
		}
	}
	for to, from := range map[string]string{
		"reports/out/20260102-150405/report.yaml": "reports/testdata/report.yaml",
		"A/report.yaml":               "reports/testdata/report.yaml",
		"B/report.yaml":               "reports/testdata/report.yaml",
		"nights/20260101/report.yaml": "reports/testdata/report.yaml",
		"policy.json":                 "framework/iam/testdata/karpenter.json",
		"my-matrix.yaml":              "scenarios/sweeps/kubeadm-and-advice.yaml",
		"my-scenario.yaml":            "docs/examples/my-scenario.yaml",
	} {
		text, err := os.ReadFile(filepath.Join(root, from))
		if err != nil {
			t.Fatal(err)
		}
		// A matrix goes by its file's name.
		text = bytes.Replace(text, []byte("name: kubeadm-and-advice"), []byte("name: my-matrix"), 1)
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("20260102-150405", filepath.Join(dir, "reports/out/latest")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
}
