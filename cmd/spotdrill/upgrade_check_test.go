package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

func TestUpgradeCheckMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		want string
	}{
		"no versions":           {"--handler karpenter", "--from and --to are required"},
		"one version":           {"--handler karpenter --from v1.13.1", "--from and --to are required"},
		"nothing with releases": {"--from v1.0.0 --to v1.1.0", "what is upgraded? builtin has no releases here"},
		"the same":              {"--handler karpenter --from v1.14.1 --to v1.14.1", "are the same release of karpenter"},
		"no plays":              {"--handler karpenter --from v1.13.1 --to v1.14.1 --plays 0", "--plays is 0"},
		"two handlers":          {"--handler karpenter,nth --from v1.13.1 --to v1.14.1", "with one handler"},
		"no such scenario":      {"--handler karpenter --from v1.13.1 --to v1.14.1 no-such-scenario", "no-such-scenario"},
		"nothing to play":       {"--handler karpenter --from v1.13.1 --to v1.14.1 --profile UPGRADE", "nothing to play"},
	} {
		args := append([]string{"upgrade-check", "--dry-run", "--out", t.TempDir()}, strings.Fields(c.args)...)
		if stdout, stderr, code := spotdrill(t, args...); code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d, want %q; printed\n%s%s", name, code, c.want, stdout, stderr)
		}
	}
}

func TestUpgradeCheckPlan(t *testing.T) {
	out := t.TempDir()
	for name, c := range map[string]struct {
		args string
		want []string
		not  string
	}{
		"a handler": {
			"--handler karpenter --from v1.13.1 --to v1.14.1",
			[]string{"spot-notice-drains-node ", "karpenter from v1.13.1 to v1.14.1: ", "next: before, version v1.13.1: ", "folder: " + filepath.Join(out, "karpenter-v1.13.1-v1.14.1-fast")},
			"coredns-pod-deleted",
		},
		"once":                   {"--handler karpenter --from v1.13.1 --to v1.14.1 --plays 1", []string{"about "}, "times with each"},
		"a handler and profiles": {"--handler karpenter --from v1.13.1 --to v1.14.1 --set full --profile LAUNCH", []string{"instance-lost-under-a-pod-that-stops-slowly-is-forgotten "}, "spot-notice-drains-node"},
	} {
		args := append([]string{"upgrade-check", "--dry-run", "--out", out}, strings.Fields(c.args)...)
		stdout, stderr, code := spotdrill(t, args...)
		if code != 0 || c.not != "" && strings.Contains(stdout, c.not) {
			t.Errorf("%s: exit code %d, want 0, and no %q; printed\n%s%s", name, code, c.not, stdout, stderr)
		}
		for _, want := range c.want {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: %q is not in\n%s", name, want, stdout)
			}
		}
	}
	stdout, _, _ := spotdrill(t, "upgrade-check", "--handler", "karpenter", "--from", "v1.13.1", "--to", "v1.14.1", "--dry-run", "--json", "--out", out)
	var p plannedUpgrade
	if err := json.Unmarshal([]byte(stdout), &p); err != nil || p.Program != "karpenter" || p.Seconds <= 0 || len(p.Scenarios) == 0 || p.Next == "" {
		t.Errorf("%v: %s", err, stdout)
	}
}
