package scenarios_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/framework/verdict"
	. "github.com/spotdrill/spotdrill/scenarios"
)

func TestEachPermissionHasADrillOfOtherClusters(t *testing.T) {
	t.Parallel()
	all, err := verdict.Scenarios().Live()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range Permissions() {
		if i >= len(all) || all[i].Observe.Permission != want {
			t.Errorf("drill %d of %d: want the one of %s", i, len(all), want)
		}
	}
	if s, err := verdict.Scenarios().Observation(); err != nil || s.Observe.Permission != "" || len(s.Checks) > 0 {
		t.Errorf("the observation permits %q and has %d checks, error %v; want nothing", s.Observe.Permission, len(s.Checks), err)
	}
}

func TestGatesBecomeChecks(t *testing.T) {
	t.Parallel()
	s, err := verdict.Scenarios().Observation()
	if err != nil {
		t.Fatal(err)
	}
	probe := *s.Probe
	probe.Probers, probe.Fresh, probe.Fixed, probe.FixedPorts, probe.Control = 100, 3500, 1500, 200, 2500
	made, err := verdict.Scenarios().With(s, probe, Gates{MaxWindow: new(100 * time.Millisecond), MaxLost: new(0), SLO: 99.99})
	if err != nil {
		t.Fatal(err)
	}
	if *made.Probe != probe || len(made.Checks) != 3 {
		t.Fatalf("probe %+v, checks %+v", *made.Probe, made.Checks)
	}
	if !reflect.DeepEqual([]Requirement{made.Checks[0].Requirement, made.Checks[1].Requirement, made.Checks[2].Requirement}, []Requirement{
		verdict.Losses{Of: DNS, Mode: "all", MaxWindow: strict.Duration(100 * time.Millisecond)}, verdict.Losses{Of: DNS, Mode: "all", Max: new(0)}, verdict.Losses{Of: DNS, Mode: "all", Answered: 99.99},
	}) {
		t.Errorf("checks %+v", made.Checks)
	}
	again, err := verdict.Scenarios().Parse(made.Name+".yaml", made.Text)
	if err != nil || again.Digest() != made.Digest() || *again.Probe != probe {
		t.Errorf("read again from its text: %+v, error %v", again.Probe, err)
	}
	if len(s.Checks) != 0 || s.Probe.Probers == 100 {
		t.Error("the scenario that it was made of has changed")
	}
}

func TestAnObservationChangesNothingByItself(t *testing.T) {
	t.Parallel()
	s, err := verdict.Scenarios().Observation()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ was, is, want string }{
		"steps":               {"settle: 5s", "settle: 5s\nsteps:\n  - do: {verb: restart, target: coredns}", "steps: is not allowed with observe"},
		"settings of CoreDNS": {"observe: {}", "observe: {}\ncoredns: {replicas: 2}", "coredns: is not allowed with observe"},
		"a workload":          {"observe: {}", "observe: {}\nworkload: {replicas: 2}", "workload: is not allowed with observe"},
		"nodes":               {"observe: {}", "observe: {}\nnodes: {victim: {capacity: spot}}", "nodes: is not allowed with observe"},
		"a profile of drills": {"profile: OBSERVE", "profile: SPOT", "profile: \"SPOT\" is not known; allowed: OBSERVE"},
		"another permission":  {"observe: {}", "observe: {permission: reclaim}", "allowed: evict-coredns, drain, notice"},
		"too many probers":    {"probe: {", "probe: {probers: 101, ", "not within 1 to 100"},
		"too high a rate":     {"fresh: 35", "fresh: 20000", "20015 queries/s are more than 20000"},
		"no query at a time":  {"probe: {", "probe: {probers: 40, ", "less than 1 for each of 40 probers"},
		"no share":            {"settle: 5s", "settle: 5s\nchecks:\n  - losses: {of: dns, mode: all, answered: 101}", "not above 0 and at most 100"},
		"a check of a notice": {"settle: 5s", "settle: 5s\nchecks:\n  - drained: {node: node, notice: notice}", "notice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(string(s.Text), c.was, c.is, 1)
			if _, err := verdict.Scenarios().Parse("observation.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one about %q", err, c.want)
			}
		})
	}
}
