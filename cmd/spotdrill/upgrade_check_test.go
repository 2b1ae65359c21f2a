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
		"no versions":            {"--handler karpenter", "--from and --to are required"},
		"one version":            {"--handler karpenter --from v1.13.1", "--from and --to are required"},
		"nothing with releases":  {"--from v1.0.0 --to v1.1.0", "what is upgraded? builtin has no releases here"},
		"two programs":           {"--coredns --kubernetes --from v1.34 --to v1.35", "one upgrade at a time"},
		"the same":               {"--handler karpenter --from v1.14.1 --to 1.14.1", "are the same release of karpenter"},
		"a version not known":    {"--handler karpenter --from v1.13.1 --to v9.9.9", "v9.9.9\"; can be had: v1."},
		"no version":             {"--coredns --from newest --to v1.15.0", "\"newest\"; want a release or its minor"},
		"a version without =":    {"--coredns v1.14.7 --from v1.34 --to v1.35", "v1.14.7 is a version: give it as --coredns=v1.14.7"},
		"no plays":               {"--handler karpenter --from v1.13.1 --to v1.14.1 --plays 0", "--plays is 0"},
		"two handlers":           {"--handler karpenter,nth --from v1.13.1 --to v1.14.1", "with one handler"},
		"no such scenario":       {"--handler karpenter --from v1.13.1 --to v1.14.1 no-such-scenario", "no-such-scenario"},
		"nothing to play":        {"--handler karpenter --from v1.13.1 --to v1.14.1 --profile UPGRADE", "nothing to play"},
		"a version of no effect": {"--coredns --from v1.14.7 --to v1.15.0 --nth v1.25.6", "changes nothing"},
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
			"--handler karpenter --from 1.13.1 --to v1.14.1",
			[]string{"spot-notice-drains-node ", "karpenter from v1.13.1 to v1.14.1: ", "next: before, version v1.13.1: ", "folder: " + filepath.Join(out, "karpenter-v1.13.1-v1.14.1-fast")},
			"coredns-pod-deleted",
		},
		"CoreDNS": {
			"--coredns --from v1.14.7 --to v1.15.0",
			[]string{"coredns-pod-deleted ", "node-upgrade-with-advice ", "coredns from v1.14.7 to v1.15.0: ", "coredns-v1.14.7-v1.15.0-full", "4 times with each"},
			"spot-notice-drains-node",
		},
		"CoreDNS, with a set":    {"--coredns --from v1.14.7 --to v1.15.0 --set fast", []string{"coredns-drained-lameduck-5s ", "coredns-v1.14.7-v1.15.0-fast"}, "coredns-pod-deleted"},
		"CoreDNS, one scenario":  {"--coredns --from v1.14.7 --to v1.15.0 coredns-drained-lameduck-5s", []string{"1 scenario with both versions, about "}, "coredns-pod-deleted"},
		"the newest of a minor":  {"--coredns --from v1.14 --to v1.15", []string{"coredns from v1.14.7 to v1.15.0"}, ""},
		"Kubernetes":             {"--kubernetes --from v1.36 --to v1.37 --coredns=v1.14.7", []string{"kubernetes from v1.36 to v1.37: ", "next: before, version v1.36: "}, ""},
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
