package scenarios_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/framework/verdict"
	. "github.com/spotdrill/spotdrill/scenarios"
)

func platform(t *testing.T, name string) *Platform {
	t.Helper()
	p, err := PlatformNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// on reads a built-in scenario with a platform.
func on(t *testing.T, name, scenario string) Scenario {
	t.Helper()
	loader := verdict.Scenarios()
	loader.Platform = platform(t, name)
	found, err := loader.Select(Full, []string{scenario})
	if err != nil {
		t.Fatal(err)
	}
	return found[0]
}

func TestAnUnknownPlatformIsNamedWithThoseThereAre(t *testing.T) {
	_, err := PlatformNamed("eks-1.35")
	if err == nil || !strings.Contains(err.Error(), `no platform is named "eks-1.35"; did you mean "eks-1.3`) || !strings.Contains(err.Error(), "openshift") {
		t.Errorf("got %v", err)
	}
}

// Every scenario can be played with every preset, and what is recorded of it needs the preset no more.
func TestTheCatalogueIsPlayableOnEveryPlatform(t *testing.T) {
	for _, name := range Platforms() {
		loader := verdict.Scenarios()
		loader.Platform = platform(t, name)
		all, err := loader.Catalogue()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !slices.Contains([]string{"k3s", "eks-1.34-lameduck-30s"}, name) {
			continue // as those
		}
		for _, s := range all {
			alone, err := verdict.Scenarios().Parse(s.Name+".yaml", s.Text)
			switch {
			case err != nil:
				t.Errorf("%s: what is recorded of %s cannot be read: %v", name, s.Name, err)
			case !alone.CoreDNS.Equal(s.CoreDNS) || len(alone.Checks) != len(s.Checks) || alone.Digest() != s.Digest():
				t.Errorf("%s: what is recorded of %s is another scenario", name, s.Name)
			}
			// A run that is resumed or repeated reads the recorded text with the platform.
			again, err := loader.Parse(s.Name+".yaml", s.Text)
			if err != nil || !again.CoreDNS.Equal(s.CoreDNS) {
				t.Errorf("%s: %s, read twice with the platform: %v, %v; want %v", name, s.Name, err, again.CoreDNS, s.CoreDNS)
			}
		}
	}
}

func TestAPlatformSetsWhatAScenarioDoesNot(t *testing.T) {
	// It sets lameduck, and nothing else of CoreDNS's life.
	s := on(t, "eks-1.34-lameduck-30s", "coredns-drained-lameduck-0s")
	if c := s.CoreDNS; c.Lameduck != 0 || c.MaxUnavailable != "1" || c.Unsafe || c.Placement != coredns.OnSpot || c.Readiness.Timeout.D() != time.Second {
		t.Errorf("coredns-drained-lameduck-0s: %s", c)
	}
	// It sets nothing: lameduck ends when the grace period does.
	s = on(t, "eks-1.34-lameduck-30s", "coredns-pod-deleted")
	if c := s.CoreDNS; c.Lameduck.D() != 30*time.Second || !c.Unsafe {
		t.Errorf("coredns-pod-deleted: %s", c)
	}
	if !strings.HasPrefix(string(s.Text), "# With the values of platform eks-1.34-lameduck-30s.") {
		t.Errorf("its text begins %.60q", s.Text)
	}
	plain, err := verdict.Scenarios().Select(Full, []string{"coredns-pod-deleted"})
	if err != nil || plain[0].Digest() == s.Digest() {
		t.Errorf("with the platform, its digest is that without: %v", err)
	}
}

func TestAPlatformShutsNodesDownUnlessTheScenarioDoes(t *testing.T) {
	down := func(grace, critical time.Duration) Shutdown {
		return Shutdown{GracePeriod: strict.Duration(grace), CriticalPods: strict.Duration(critical)}
	}
	for _, of := range []struct {
		platform, scenario string
		want               Shutdown
	}{
		{"eks-1.34", "coredns-shut-down-as-configured", down(150*time.Second, 30*time.Second)},
		{"talos", "coredns-shut-down-as-configured", down(30*time.Second, 10*time.Second)},
		{"eks-1.33", "coredns-shut-down-as-configured", down(0, 0)},
		{"eks-1.34", "coredns-shut-down-with-its-node", down(0, 0)},
		{"eks-1.34", "coredns-shut-down-gracefully-with-its-node", down(time.Minute, 10*time.Second)},
	} {
		if got := on(t, of.platform, of.scenario).ShutDown()["victim"]; got != of.want {
			t.Errorf("%s on %s: %v, want %v", of.scenario, of.platform, got, of.want)
		}
	}
}

// A DaemonSet is only that of scenarios that do not depend on a Deployment.
func TestAPlatformRunsADaemonSetUnlessTheScenarioNeedsADeployment(t *testing.T) {
	for scenario, want := range map[string]bool{
		"coredns-pod-deleted": true, "coredns-restarted": true, "coredns-shut-down-as-configured": true, "coredns-drained-replicas-3": false,
		"coredns-scaled-up-and-down": false, "coredns-scaled-with-the-cluster": false, "coredns-lameduck-edited-while-it-runs": false,
	} {
		if got := on(t, "openshift", scenario).CoreDNS.DaemonSet; got != want {
			t.Errorf("%s: %t, want %t", scenario, got, want)
		}
	}
	_, err := written("coredns: {daemonSet: true}\nprobe: {}\nsteps:\n- do: {verb: scale, target: coredns, replicas: 1}\nchecks:\n- losses: {of: dns, mode: fresh, maxWindow: 60s}")
	if err == nil || !strings.Contains(err.Error(), "coredns.daemonSet: is not allowed with a step that scales or configures CoreDNS") {
		t.Errorf("got %v", err)
	}
}

// The port belongs to the Corefile: a scenario that sets one of them gets no other of the platform.
func TestThePortOfAPlatformIsThatOfItsCorefile(t *testing.T) {
	loader := verdict.Scenarios()
	loader.Platform = platform(t, "openshift")
	for name, of := range map[string]struct {
		coredns string
		port    int
	}{
		"none of both":   {"lameduck: 7s", 5353},
		"a Corefile":     {"corefile: \".:53 {\\n  whoami\\n}\\n\"", 53},
		"a port":         {"port: 1053", 1053},
		"the usual port": {"port: 53", 53},
		"both":           {"port: 1053, corefile: \".:1053 {\\n  whoami\\n}\\n\"", 1053},
	} {
		s, err := writtenFor(loader, corednsOf(of.coredns))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := coredns.Read(coredns.Source{Text: s.CoreDNS.Corefile}).ServesAt(of.port); s.CoreDNS.PodPort() != of.port || err != nil || s.CoreDNS.TrafficDistribution != coredns.PreferSameNode {
			t.Errorf("%s: port %d, %v, want %d", name, s.CoreDNS.PodPort(), err, of.port)
		}
	}
}

func TestEveryPresetDiffersFromTheOthers(t *testing.T) {
	var seen []coredns.Settings
	for _, name := range Platforms() {
		p := platform(t, name)
		if len(p.Values()) == 0 {
			t.Errorf("%s sets nothing", name)
		}
		if slices.ContainsFunc(seen, p.CoreDNS.Equal) && p.Shutdown == (Shutdown{}) && name != "eks-1.33" {
			t.Errorf("%s is like another", name)
		}
		seen = append(seen, p.CoreDNS)
	}
}

const preset = `apiVersion: spotdrill.dev/v1alpha1
kind: Platform
name: mine
title: Mine
versions: {coredns: v1}
coredns:
  lameduck: 7s
  readiness: {period: 5s}
shutdown: {gracePeriod: 60s, criticalPods: 20s}
sources: {versions: https://example.com/, coredns: https://example.com/, shutdown: https://example.com/}
`

func TestInvalidPlatforms(t *testing.T) {
	if _, err := ParsePlatform("mine.yaml", []byte(preset)); err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]struct{ old, new, want string }{
		"another name":                        {"name: mine", "name: yours", `mine.yaml:3: name: "yours" must be the file's name, "mine"`},
		"a scenario":                          {"kind: Platform", "kind: Scenario", "mine.yaml:2: kind"},
		"an unknown field":                    {"  lameduck", "  lamduck", "mine.yaml:7"},
		"a placement":                         {"lameduck: 7s", "placement: spot", "coredns.placement: is the scenario's to choose"},
		"a value without a source":            {", shutdown: https://example.com/", "", "mine.yaml:9: shutdown.criticalPods: has no source"},
		"a source of no value":                {"coredns: https", "kubeProxy: https://example.com/, coredns: https", "kubeProxy: the file does not set such a value"},
		"a source that is no page":            {"coredns: https://example.com/", "coredns: E11", `"E11" is not the URL of a page`},
		"a duration without a unit":           {"7s", "7", "mine.yaml:7"},
		"killed in the middle of lameduck":    {"7s", "30s", "coredns.gracePeriod"},
		"more for critical pods than for all": {"20s", "61s", "shutdown.criticalPods: 1m1s is not"},
		"a shutdown of hours":                 {"60s", "1h", "shutdown.gracePeriod: 1h0m0s is not"},
		"a mode that is none":                 {"shutdown:", "kubeProxy: {mode: ebpf}\nshutdown:", "kubeProxy.mode"},
		"both forms of a budget":              {"lameduck: 7s", "lameduck: 7s\n  minAvailable: 1\n  maxUnavailable: '1'", "a budget has one of them"},
		"a budget of pods and a half":         {"lameduck: 7s", "lameduck: 7s\n  maxUnavailable: '1.5'", `"1.5" is neither a number of pods nor a share`},
		"a policy without a budget":           {"lameduck: 7s", "lameduck: 7s\n  unhealthyPodEvictionPolicy: AlwaysAllow", "needs a budget"},
		"an anti-affinity that is none":       {"lameduck: 7s", "lameduck: 7s\n  antiAffinity: hard", "coredns.antiAffinity"},
		"a spread over racks":                 {"lameduck: 7s", "lameduck: 7s\n  topologySpread: [{by: rack, whenUnsatisfiable: DoNotSchedule}]", "coredns.topologySpread[0].by"},
		"a probe that waits for ever":         {"period: 5s", "period: 5s, timeout: 90s", "coredns.readiness.timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParsePlatform("mine.yaml", []byte(strings.Replace(preset, of.old, of.new, 1)))
			if err == nil || !strings.Contains(err.Error(), of.want) {
				t.Errorf("got %v, want %q", err, of.want)
			}
		})
	}
}
