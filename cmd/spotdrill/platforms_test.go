package main

import (
	"strings"
	"testing"
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
