package run

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/spotdrill/spotdrill/framework/conntrack"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/objects"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/scenarios"
)

func TestProbersShareTheLoad(t *testing.T) {
	address := netip.MustParseAddr("10.96.0.10")
	whole := scenarios.DefaultProbe()
	for whole.Probers = 1; whole.Probers <= scenarios.MaxProbers; whole.Probers++ {
		rates, ports := make([]int, 3), 0
		for i := range whole.Probers {
			plan := probePlan(whole, i, address, netip.AddrPortFrom(address, 5353), nil)
			if err := plan.Validate(); err != nil {
				t.Fatal(err)
			}
			for n, s := range plan.Streams {
				rates[n] += s.Rate
				ports += s.Ports
				if want := map[bool]uint16{true: 5353, false: 53}[s.Target == history.Control]; s.Server.Port() != want {
					t.Errorf("%s is queried at port %d, want %d", s.Target, s.Server.Port(), want)
				}
			}
		}
		if want := []int{whole.Fresh, whole.Fixed, whole.Control}; !reflect.DeepEqual(rates, want) || ports != whole.FixedPorts {
			t.Errorf("%d probers query %v from %d ports in all, want %v from %d", whole.Probers, rates, ports, want, whole.FixedPorts)
		}
	}
}

// By TCP each query has a connection of its own or uses a kept one; the control is
// still queried by UDP.
func TestTheServiceIsQueriedByTheScenariosTransport(t *testing.T) {
	address, probe := netip.MustParseAddr("10.96.0.10"), scenarios.DefaultProbe()
	for transport, want := range map[scenarios.Transport][]history.Mode{
		scenarios.UDP:  {history.Fresh, history.Fixed, history.Fresh},
		scenarios.TCP:  {history.Connect, history.Kept, history.Fresh},
		scenarios.Both: {history.Fresh, history.Fixed, history.Connect, history.Kept, history.Fresh},
	} {
		probe.Transport = transport
		plan := probePlan(probe, 0, address, netip.AddrPortFrom(address, 5353), nil)
		var got []history.Mode
		for _, s := range plan.Streams {
			got = append(got, s.Mode)
		}
		if err := plan.Validate(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v (%v)", transport, got, want, err)
		}
	}
}

// A cache that one stream has filled must not answer another one.
func TestNoNameIsQueriedTwice(t *testing.T) {
	address, probe := netip.MustParseAddr("10.96.0.10"), scenarios.DefaultProbe()
	probe.Name, probe.Names, probe.Probers = "external.test.", scenarios.MaxProbeNames, 2
	names := map[string]bool{}
	for i := range probe.Probers {
		plan := probePlan(probe, i, address, netip.AddrPortFrom(address, 5353), nil)
		if err := plan.Validate(); err != nil {
			t.Fatal(err)
		}
		for _, s := range plan.Streams {
			for _, q := range s.Questions {
				names[q.Name] = true
			}
		}
	}
	if want := 2 * 3 * scenarios.MaxProbeNames; len(names) != want {
		t.Errorf("%d names, want %d", len(names), want)
	}
}

// One prober runs where nothing ever happens; several avoid the nodes that the scenario
// acts on.
func TestProbersKeepOffTheScenariosNodes(t *testing.T) {
	for name, c := range map[string]struct {
		probers int
		targets []string
		want    corev1.NodeSelectorRequirement
	}{
		"one":                  {1, []string{"worker2"}, corev1.NodeSelectorRequirement{Key: "karpenter.sh/capacity-type", Operator: corev1.NodeSelectorOpIn, Values: []string{"on-demand"}}},
		"several":              {3, []string{"worker2", "worker4"}, corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"worker2", "worker4"}}},
		"several, on no nodes": {3, nil, corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpExists}},
	} {
		t.Run(name, func(t *testing.T) {
			objs, err := objects.Decode(t.Context(), manifests, "manifests/prober.yaml", map[string]string{
				"NAMESPACE": system.Namespace, "IMAGE": "image", "PROBERS": "3", "WHERE": asYAML(whereToProbe(c.probers, c.targets)),
			})
			if err != nil {
				t.Fatal(err)
			}
			terms := objs[0].(*batchv1.Job).Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			if spec := objs[0].(*batchv1.Job).Spec.Template.Spec; !slices.Contains(spec.Containers[0].Args, "--token-file=/var/run/control/token") || spec.Volumes[0].Secret.SecretName != "control-token" || spec.Containers[0].VolumeMounts[0].MountPath != "/var/run/control" {
				t.Errorf("whoever reaches the probers can end the probe: %+v", spec)
			}
			if got := terms[0].MatchExpressions[0]; len(terms) != 1 || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// The probers share the requests, and the recorder of flows knows both services.
func TestProbersRequestTheApplication(t *testing.T) {
	service, control := netip.MustParseAddrPort("10.96.12.7:80"), netip.MustParseAddrPort("10.244.0.9:8080")
	dns, direct := netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("10.244.0.2")
	for transport, want := range map[scenarios.ApplicationTransport]map[history.Mode]int{
		scenarios.OverHTTP: {history.HTTP: 200 + 50, history.HTTPKept: 100},
		scenarios.OverTCP:  {history.Dial: 200 + 50},
	} {
		a := scenarios.DefaultApplicationProbe()
		if a.Transport = transport; transport == scenarios.OverTCP {
			a.Fixed, a.FixedPorts = 0, 0
		}
		probe := scenarios.DefaultProbe()
		probe.Probers = 3
		rates := map[history.Mode]int{}
		for i := range probe.Probers {
			plan := probePlan(probe, i, dns, netip.AddrPortFrom(direct, 53), applicationPlan(a, service, control))
			if err := plan.Validate(); err != nil {
				t.Fatalf("%s: %v", transport, err)
			}
			for _, s := range plan.Streams {
				if s.Mode.OfApplications() {
					rates[s.Mode] += s.Rate
				}
			}
			if got, want := recorderArgs("10.244.1.3", plan), []string{"conntrack", "--listen=:18153", "--token-file=/var/run/control/token", "--client=10.244.1.3", "--service=10.96.0.10:53", "--service=application=10.96.12.7:80"}; !slices.Equal(got, want) {
				t.Errorf("%s: args %q, want %q", transport, got, want)
			}
		}
		if !reflect.DeepEqual(rates, want) {
			t.Errorf("%s: %v, want %v", transport, rates, want)
		}
	}
}

func TestTheRecorderOfFlowsGetsItsServices(t *testing.T) {
	plan := probePlan(scenarios.DefaultProbe(), 0, netip.MustParseAddr("10.96.0.10"), netip.MustParseAddrPort("10.244.0.2:53"), nil)
	objs, err := objects.Decode(t.Context(), manifests, "manifests/conntrack.yaml", map[string]string{
		"NAME": "conntrack-0", "NAMESPACE": "spotdrill", "IMAGE": "image", "NODE": "worker", "ARGS": asYAML(recorderArgs("10.244.1.3", plan)), "PORT": conntrack.Port,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"conntrack", "--listen=:18153", "--token-file=/var/run/control/token", "--client=10.244.1.3", "--service=10.96.0.10:53"}
	if got := objs[0].(*corev1.Pod).Spec.Containers[0].Args; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
