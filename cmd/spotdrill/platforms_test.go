package main

import (
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/kind"
	"github.com/spotdrill/spotdrill/scenarios"
)

func TestPlatformsShowsValuesWithTheirSources(t *testing.T) {
	for want, args := range map[string][]string{
		"PLATFORM               TITLE\naks ": nil,
		"# https://github.com/awslabs/amazon-eks-ami/blob/81fec2e8/nodeadm/internal/kubelet/config.go\nshutdown.gracePeriod: 150s\nshutdown.criticalPods: 30s\n\nnot here:\n- The image": {"eks-1.34"},
		`"field": "coredns.unhealthyPodEvictionPolicy",`: {"kops", "--json"},
	} {
		if stdout, stderr, code := spotdrill(t, append([]string{"platforms"}, args...)...); code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%v: exit code %d, %s printed\n%s\nwithout %q", args, code, stderr, stdout, want)
		}
	}
}

func TestAWrongPlatformIsAMistakeOfTheCall(t *testing.T) {
	const want = `"eks-1.3" is not known; did you mean "eks-1.33"? allowed: aks, eks-1.33, `
	for _, args := range [][]string{{"platforms", "eks-1.3"}, {"run", "--dry-run", "--platform", "eks-1.3"}, {"up", "--platform", "eks-1.3"}, {"sweep", "kubeadm-and-advice", "--dry-run", "--platform", "eks-1.3"}} {
		_, stderr, code := spotdrill(t, args...)
		if code != exitUsage || !strings.Contains(strings.NewReplacer("no platform is named ", "", `3"; did`, `3" is not known; did`).Replace(stderr), want) {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}

// What a platform runs is shown in one line if a drill here runs another version and none was chosen, with the flags for it.
func TestAPlatformShowsItsVersions(t *testing.T) {
	known := func(p kind.Program) []string {
		versions, err := kind.ImageOptions{}.Known(p)
		if err != nil {
			t.Fatal(err)
		}
		return versions
	}
	kubernetes, dns := known(kind.Kubernetes)[0], known(kind.CoreDNS)[0]
	for name, c := range map[string]struct {
		runs, chosen kind.Versions
		want         string
	}{
		"both":                       {kind.Versions{Kubernetes: "1.34 to 1.36", CoreDNS: "v1.13.2-eksbuild.19"}, kind.Versions{}, "p runs Kubernetes 1.34 to 1.36 and CoreDNS v1.13.2-eksbuild.19; without flags, a drill here has Kubernetes " + kubernetes + " and CoreDNS " + dns + ". With that of the platform: --kubernetes v1.34 --coredns v1.13.2"},
		"one is chosen":              {kind.Versions{Kubernetes: "1.34", CoreDNS: "1.13.2"}, kind.Versions{Kubernetes: "v1.33"}, "p runs CoreDNS 1.13.2; without flags, a drill here has CoreDNS " + dns + ". With that of the platform: --coredns v1.13.2"},
		"both are chosen":            {kind.Versions{Kubernetes: "1.34", CoreDNS: "1.13.2"}, kind.Versions{Kubernetes: "v1.33", CoreDNS: "v1.12.4"}, ""},
		"the same":                   {kind.Versions{Kubernetes: "1.34 to 1.99", CoreDNS: dns + "-build1"}, kind.Versions{}, ""},
		"a platform that names none": {kind.Versions{}, kind.Versions{}, ""},
		"one that cannot be had":     {kind.Versions{Kubernetes: "1.20", CoreDNS: "v1.13.2"}, kind.Versions{}, "p runs Kubernetes 1.20 and CoreDNS v1.13.2; without flags, a drill here has Kubernetes " + kubernetes + " and CoreDNS " + dns + ". With that of the platform: --coredns v1.13.2; that Kubernetes cannot be had here"},
		"none that can be had":       {kind.Versions{CoreDNS: "1.6.7"}, kind.Versions{}, "p runs CoreDNS 1.6.7; without flags, a drill here has CoreDNS " + dns + "; that CoreDNS cannot be had here"},
	} {
		p := &scenarios.Platform{Name: "p", Versions: scenarios.Versions{Kubernetes: c.runs.Kubernetes, CoreDNS: c.runs.CoreDNS}}
		if got := versionsOf(p, system.Options{Versions: c.chosen}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for _, args := range [][]string{{"platforms", "kops"}, {"run", "--dry-run", "--platform", "kops"}} {
		if stdout, stderr, code := spotdrill(t, args...); code != 0 || !strings.Contains(stdout+stderr, "\nkops runs CoreDNS v1.14.2; without flags") && !strings.HasPrefix(stderr, "kops runs CoreDNS v1.14.2; without flags") {
			t.Errorf("%v: exit code %d, %s%s", args, code, stdout, stderr)
		}
	}
	if _, stderr, code := spotdrill(t, "run", "--dry-run", "--platform", "kops", "--coredns", "v1.14.2"); code != 0 || strings.Contains(stderr, "kops runs") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// Each error names what is wrong and what can be had, before anything is brought up.
func TestVersionsThatCannotBeHad(t *testing.T) {
	for want, args := range map[string][]string{
		`--kubernetes is "v1.20"; can be had: v1.37.`:                                                                       {"--kubernetes", "v1.20"},
		`--coredns is "v9"; want a release or its minor; can be had: v1.15.0`:                                               {"--coredns", "v9"},
		`--coredns is "v9.0"; can be had: v1.15.0`:                                                                          {"--coredns", "v9.0"},
		`--kubernetes is "latest"; want a release or its minor; can be had: v1.37.`:                                         {"--kubernetes", "latest"},
		`--karpenter is "v1.15.9"; can be had: v1.15.2 (pulled), v1.15.0 (`:                                                 {"--handler", "karpenter", "--karpenter", "v1.15.9"},
		`--nth is "1.30"; can be had: v1.25.6`:                                                                              {"--handler", "nth", "--nth", "1.30"},
		`platform openshift has trafficDistribution PreferSameNode, which Kubernetes has since v1.34; --kubernetes is 1.33`: {"--platform", "openshift", "--kubernetes", "1.33"},
	} {
		for _, command := range []string{"run", "up"} {
			if command == "up" && strings.Contains(strings.Join(args, " "), "--handler") {
				continue
			}
			call := append([]string{command}, args...)
			if command == "run" {
				call = append(call, "--dry-run")
			}
			if _, stderr, code := spotdrill(t, call...); code != exitUsage || !strings.Contains(stderr, want) {
				t.Errorf("%v: exit code %d, %s, want %q", call, code, stderr, want)
			}
		}
	}
}
