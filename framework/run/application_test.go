package run

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/spotdrill/spotdrill/framework/conntrack"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/objects"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// What the workload's pods do follows from the scenario: a preStop hook comes before SIGTERM, and
// the grace period leaves time for both.
func TestHowTheWorkloadServes(t *testing.T) {
	seconds := func(n int) strict.Duration { return strict.Duration(time.Duration(n) * time.Second) }
	for name, c := range map[string]struct {
		serves  *scenarios.Serves
		args    []string
		grace   int64
		preStop int64 // seconds; 0 for none
	}{
		"not at all": {nil, []string{"workload"}, 10, 0},
		"at once":    {&scenarios.Serves{}, []string{"workload", "--http=:8080", "--starts-in=0s"}, 10, 0},
		"slowly":     {&scenarios.Serves{StartsIn: seconds(5), PreStop: seconds(7)}, []string{"workload", "--http=:8080", "--starts-in=5s"}, 17, 7},
	} {
		values := podsOf(scenarios.Workload{Serves: c.serves})
		maps.Copy(values, map[string]string{"NAMESPACE": "spotdrill-workload-1", "IMAGE": "image", "REPLICAS": "3", "WHERE": asYAML(whereToRun(scenarios.Workload{}, ""))})
		objs, err := objects.Decode(t.Context(), manifests, "manifests/workload.yaml", values)
		if err != nil || len(objs) != 1 {
			t.Fatalf("%s: %d objects (%v)", name, len(objs), err)
		}
		pod := objs[0].(*appsv1.Deployment).Spec.Template.Spec
		app := pod.Containers[0]
		var preStop int64
		if app.Lifecycle != nil {
			preStop = app.Lifecycle.PreStop.Sleep.Seconds
		}
		if !reflect.DeepEqual(app.Args, c.args) || *pod.TerminationGracePeriodSeconds != c.grace || preStop != c.preStop {
			t.Errorf("%s: args %v, grace period %d, preStop %d", name, app.Args, *pod.TerminationGracePeriodSeconds, preStop)
		}
		if (app.ReadinessProbe != nil) != (c.serves != nil) {
			t.Errorf("%s: readiness probe %+v", name, app.ReadinessProbe)
		}
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
			plan := probePlan(probe, i, dns, direct, applicationPlan(a, service, control))
			if err := plan.Validate(); err != nil {
				t.Fatalf("%s: %v", transport, err)
			}
			for _, s := range plan.Streams {
				if s.Mode.OfApplications() {
					rates[s.Mode] += s.Rate
				}
			}
			if got, want := recorderArgs("10.244.1.3", plan), []string{"conntrack", "--listen=:18153", "--client=10.244.1.3", "--service=10.96.0.10:53", "--service=application=10.96.12.7:80"}; !slices.Equal(got, want) {
				t.Errorf("%s: args %q, want %q", transport, got, want)
			}
		}
		if !reflect.DeepEqual(rates, want) {
			t.Errorf("%s: %v, want %v", transport, rates, want)
		}
	}
}

func TestTheRecorderOfFlowsGetsItsServices(t *testing.T) {
	plan := probePlan(scenarios.DefaultProbe(), 0, netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("10.244.0.2"), nil)
	objs, err := objects.Decode(t.Context(), manifests, "manifests/conntrack.yaml", map[string]string{
		"NAME": "conntrack-0", "NAMESPACE": "spotdrill", "IMAGE": "image", "NODE": "worker", "ARGS": asYAML(recorderArgs("10.244.1.3", plan)), "PORT": conntrack.Port,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"conntrack", "--listen=:18153", "--client=10.244.1.3", "--service=10.96.0.10:53"}
	if got := objs[0].(*corev1.Pod).Spec.Containers[0].Args; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
