package clusterdns

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/framework/strict"
)

func TestCorefileEdits(t *testing.T) {
	text, err := os.ReadFile("../coredns/testdata/kubeadm.Corefile")
	if err != nil {
		t.Fatal(err)
	}
	kubeadm := string(text)
	upstream := func(c string) (string, error) { return withUpstream(c, "10.96.0.53") }
	tests := []struct {
		name         string
		edit         func(string) (string, error)
		corefile     string
		was, becomes string
		err          string
	}{
		{name: "upstream keeps the block", edit: upstream, corefile: kubeadm, was: "forward . /etc/resolv.conf {", becomes: "forward . 10.96.0.53 {"},
		{name: "upstream without a block", edit: upstream, corefile: ".:53 {\n  forward . 8.8.8.8\n}\n", was: "forward . 8.8.8.8", becomes: "forward . 10.96.0.53"},
		{name: "upstreams", edit: upstream, corefile: ".:53 {\n  forward . 8.8.8.8 tls://1.1.1.1 {\n    max_concurrent 10\n  }\n}\n", was: "forward . 8.8.8.8 tls://1.1.1.1 {", becomes: "forward . 10.96.0.53 {"},
		{
			name: "an own Corefile's upstream becomes the cluster's", corefile: ".:53 {\n  forward . 8.8.8.8 {\n  }\n}\n",
			edit: func(c string) (string, error) {
				return asOf(c, ".:53 {\n  forward . 10.96.0.53 {\n    max_concurrent 9\n  }\n}\n"), nil
			},
			was: "forward . 8.8.8.8", becomes: "forward . 10.96.0.53",
		},
		{name: "a zone's own forward is left alone", edit: upstream, corefile: ".:53 {\n  forward corp.example 10.1.1.1\n}\n", err: "no `forward . "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.edit(test.corefile)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.Replace(test.corefile, test.was, test.becomes, 1); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestCoreDNSIsPlaced(t *testing.T) {
	tests := []struct {
		placement coredns.Placement
		selector  string // of the capacity label
		apart     bool   // no two on one node
		rather    bool   // preferably apart
		spread    bool   // over capacities
	}{
		{placement: coredns.OnOnDemand, selector: nodes.OnDemand},
		{placement: coredns.OnSpot, selector: nodes.Spot, apart: true},
		{placement: coredns.Spread, apart: true, spread: true},
		{placement: coredns.Anywhere, rather: true},
	}
	for _, test := range tests {
		// Each is set after each other one: nothing of the previous drill may be left.
		for _, before := range tests {
			t.Run(string(test.placement+" after "+before.placement), func(t *testing.T) {
				deploy := &appsv1.Deployment{}
				deploy.Spec.Template.Spec.NodeSelector = map[string]string{"kubernetes.io/os": "linux"}
				setTemplate(deploy, appsv1.DeploymentSpec{}, coredns.Settings{Placement: before.placement, Replicas: 2, DoNotDisrupt: !before.rather}, "before")
				setTemplate(deploy, appsv1.DeploymentSpec{}, coredns.Settings{
					Placement: test.placement, Replicas: 3, GracePeriod: strict.Duration(time.Minute),
					DoNotDisrupt: test.rather,
				}, "now")

				spec := deploy.Spec.Template.Spec
				if got := spec.NodeSelector[nodes.CapacityLabel]; got != test.selector {
					t.Errorf("node selector %q, want %q", got, test.selector)
				}
				if spec.NodeSelector["kubernetes.io/os"] != "linux" {
					t.Error("the Deployment's own node selector is gone")
				}
				var apart corev1.PodAntiAffinity
				if spec.Affinity != nil {
					apart = *spec.Affinity.PodAntiAffinity
				}
				if got := len(apart.RequiredDuringSchedulingIgnoredDuringExecution) > 0; got != test.apart {
					t.Errorf("kept apart: %t, want %t", got, test.apart)
				}
				if got := len(apart.PreferredDuringSchedulingIgnoredDuringExecution) > 0; got != test.rather {
					t.Errorf("rather apart: %t, want %t", got, test.rather)
				}
				if got := len(spec.TopologySpreadConstraints) > 0; got != test.spread {
					t.Errorf("spread: %t, want %t", got, test.spread)
				}
				if ptr.Deref(spec.TerminationGracePeriodSeconds, 0) != 60 || ptr.Deref(deploy.Spec.Replicas, 0) != 3 {
					t.Error("grace period or replicas are not those of now")
				}
				if _, kept := deploy.Spec.Template.Annotations[coredns.DoNotDisrupt]; kept != test.rather {
					t.Errorf("not to be disrupted: %t, want %t", kept, test.rather)
				}
				if deploy.Spec.Template.Annotations[settingsMark] != "now" {
					t.Error("the pods cannot be distinguished from the previous ones")
				}
			})
		}
	}
}

// Each is set after the one before: nothing of that may be left.
func TestTheLifeOfCoreDNSPodsIsSet(t *testing.T) {
	probe := func(path string, port intstr.IntOrString) *corev1.Probe {
		return &corev1.Probe{PeriodSeconds: 10, FailureThreshold: 3, TimeoutSeconds: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: port}}}
	}
	original := corev1.Container{Name: container, ReadinessProbe: probe("/ready", intstr.FromString("readiness-probe")), LivenessProbe: probe("/health", intstr.FromInt32(8080))}
	c := original.DeepCopy()
	fast := coredns.Readiness{Period: strict.Duration(time.Second), FailureThreshold: 1}
	elsewhere := ".:53 {\n  health :9090\n  ready :9191\n  whoami\n}\n"
	for _, of := range []struct {
		set  coredns.Settings
		want string
	}{
		{coredns.Settings{Readiness: fast}, "ready readiness-probe 1 x 1, health 8080"},
		{coredns.Settings{Readiness: fast, PreStop: strict.Duration(7 * time.Second)}, "ready readiness-probe 1 x 1, health 8080, sleep 7"},
		{coredns.Settings{Readiness: coredns.Defaults().Readiness, Corefile: elsewhere, Lameduck: strict.Duration(time.Second)}, "ready 9191 10 x 3, health 9090"},
		{coredns.Settings{Readiness: fast, Corefile: ".:53 {\n  whoami\n}\n"}, "ready 8181 1 x 1, health 8080"},
		{coredns.Settings{Readiness: coredns.Readiness{Period: strict.Duration(5 * time.Second), FailureThreshold: 1, Timeout: strict.Duration(5 * time.Second), InitialDelay: strict.Duration(30 * time.Second)}}, "ready readiness-probe 5 x 1 timeout 5 after 30, health 8080"},
		{coredns.Defaults(), "ready readiness-probe 10 x 3, health 8080"},
	} {
		text, err := of.set.Text(".:53 {\n  health\n  ready\n}\n")
		if err != nil {
			t.Fatal(err)
		}
		setLife(c, &original, of.set, coredns.Read(coredns.Source{Text: text}))
		r, timing := c.ReadinessProbe, ""
		if r.TimeoutSeconds != 1 || r.InitialDelaySeconds != 0 {
			timing = fmt.Sprintf(" timeout %d after %d", r.TimeoutSeconds, r.InitialDelaySeconds)
		}
		got := fmt.Sprintf("ready %s %d x %d%s, health %s", r.HTTPGet.Port.String(), r.PeriodSeconds, r.FailureThreshold, timing, c.LivenessProbe.HTTPGet.Port.String())
		if c.Lifecycle != nil {
			got += fmt.Sprintf(", sleep %d", c.Lifecycle.PreStop.Sleep.Seconds)
		}
		if got != of.want {
			t.Errorf("%s: %s, want %s", of.set, got, of.want)
		}
	}
}

func TestCoreDNSToleratesWhatIsSetAndWhatItDid(t *testing.T) {
	original, deploy := appsv1.DeploymentSpec{}, &appsv1.Deployment{}
	original.Template.Spec.Tolerations = []corev1.Toleration{{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists}}
	deploy.Spec = *original.DeepCopy()
	for _, of := range []struct {
		set  coredns.Settings
		want string
	}{
		{coredns.Settings{Tolerations: []coredns.Toleration{{Key: "dedicated", Value: "dns", Effect: "NoSchedule"}, {Operator: coredns.Exists}}}, "CriticalAddonsOnly dedicated=dns:NoSchedule Exists"},
		{coredns.Settings{Placement: coredns.Launched}, "CriticalAddonsOnly " + coredns.LaunchedKey},
		{coredns.Settings{}, "CriticalAddonsOnly"},
	} {
		setTemplate(deploy, original, of.set, "now")
		var got []string
		for _, t := range deploy.Spec.Template.Spec.Tolerations {
			text := cmp.Or(t.Key, string(t.Operator))
			if t.Value != "" {
				text += "=" + t.Value + ":" + string(t.Effect)
			}
			got = append(got, text)
		}
		if text := strings.Join(got, " "); text != of.want {
			t.Errorf("%s: %s, want %s", of.set, text, of.want)
		}
	}
}

func TestWhatLaunchedPodsOfCoreDNSRequest(t *testing.T) {
	original := appsv1.DeploymentSpec{}
	original.Template.Spec.Containers = []corev1.Container{{Name: container, Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("70Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("170Mi")},
	}}}
	deploy := &appsv1.Deployment{Spec: *original.DeepCopy()}
	for _, c := range []struct {
		set              coredns.Settings
		requests, limits string
	}{
		{coredns.Settings{Memory: "2Gi"}, "100m 2Gi 0", "0 2Gi 0"},
		{coredns.Settings{Memory: "1Gi", PodENI: true}, "100m 1Gi 1", "0 1Gi 1"},
		{coredns.Settings{PodENI: true}, "100m 70Mi 1", "0 170Mi 1"},
		{coredns.Settings{}, "100m 70Mi 0", "0 170Mi 0"},
	} {
		setRequests(containerOf(&deploy.Spec), containerOf(&original), c.set)
		text := func(l corev1.ResourceList) string {
			eni := l[coredns.PodENI]
			return l.Cpu().String() + " " + l.Memory().String() + " " + eni.String()
		}
		got := deploy.Spec.Template.Spec.Containers[0].Resources
		if text(got.Requests) != c.requests || text(got.Limits) != c.limits {
			t.Errorf("%+v: requests %s, limits %s; want %s, %s", c.set, text(got.Requests), text(got.Limits), c.requests, c.limits)
		}
	}
}

func TestLaunchedPodsOfCoreDNSShareANodeOnlyIfTheyMay(t *testing.T) {
	for shares, apart := range map[bool]bool{true: false, false: true} {
		deploy := &appsv1.Deployment{}
		setTemplate(deploy, appsv1.DeploymentSpec{}, coredns.Settings{Placement: coredns.Launched, Replicas: 2, ShareNodes: shares}, "now")
		if got := deploy.Spec.Template.Spec.Affinity != nil; got != apart {
			t.Errorf("shareNodes %t: kept apart %t", shares, got)
		}
	}
}

func TestTheBudgetOfCoreDNS(t *testing.T) {
	d := &CoreDNS{client: fake.NewClientset()}
	for _, of := range []struct {
		set  coredns.Settings
		want string
	}{
		{coredns.Settings{}, ""},
		{coredns.Settings{MinAvailable: 1}, "minAvailable 1"},
		{coredns.Settings{MinAvailable: 1}, "minAvailable 1"},
		{coredns.Settings{MaxUnavailable: "33%", UnhealthyPodEvictionPolicy: "AlwaysAllow"}, "maxUnavailable 33% AlwaysAllow"},
		{coredns.Settings{MaxUnavailable: "1"}, "maxUnavailable 1"},
		{coredns.Settings{}, ""},
	} {
		if err := d.setBudget(t.Context(), budgetOf(of.set)); err != nil {
			t.Fatal(err)
		}
		spec, err := d.budget(t.Context())
		got := ""
		if spec != nil {
			if spec.MinAvailable != nil {
				got += "minAvailable " + spec.MinAvailable.String()
			}
			if spec.MaxUnavailable != nil {
				got += "maxUnavailable " + spec.MaxUnavailable.String()
			}
			got = strings.TrimSpace(got + " " + string(ptr.Deref(spec.UnhealthyPodEvictionPolicy, "")))
		}
		if err != nil || got != of.want {
			t.Errorf("budget %q, %v, want %q", got, err, of.want)
		}
	}
}

// Each is set after the one before: nothing of that may be left.
func TestPlatformsScheduleAndReplaceTheirPods(t *testing.T) {
	original := appsv1.DeploymentSpec{Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: ptr.To(intstr.FromInt32(1)), MaxSurge: ptr.To(intstr.FromString("25%"))}}}
	deploy := &appsv1.Deployment{Spec: *original.DeepCopy()}
	byHost := []coredns.TopologySpread{{By: "zone", WhenUnsatisfiable: "ScheduleAnyway"}, {By: coredns.ByHost, WhenUnsatisfiable: "DoNotSchedule"}}
	for _, of := range []struct {
		set  coredns.Settings
		want string
	}{
		{coredns.Settings{Placement: coredns.OnSpot, AntiAffinity: coredns.NoAntiAffinity, TopologySpread: byHost, Rollout: coredns.Rollout{MaxSurge: "10%"}}, "rollout 1 10%, ready 0; topology.kubernetes.io/zone ScheduleAnyway; kubernetes.io/hostname DoNotSchedule"},
		{coredns.Settings{Placement: coredns.OnOnDemand, AntiAffinity: coredns.RequiredAntiAffinity, TopologySpread: byHost}, "rollout 1 25%, ready 0; topology.kubernetes.io/zone ScheduleAnyway"},
		{coredns.Settings{Placement: coredns.OnSpot, AntiAffinity: coredns.PreferredAntiAffinity, Rollout: coredns.Rollout{MaxUnavailable: "0", MaxSurge: "1", MinReady: strict.Duration(9 * time.Second)}}, "rollout 0 1, ready 9; preferred"},
		{coredns.Settings{Placement: coredns.Spread, AntiAffinity: coredns.RequiredAntiAffinity}, "rollout 1 25%, ready 0; required; karpenter.sh/capacity-type DoNotSchedule"},
		{coredns.Settings{Placement: coredns.OnSpot}, "rollout 1 25%, ready 0; required"},
	} {
		setTemplate(deploy, original, of.set, "now")
		spec, rolling := deploy.Spec.Template.Spec, deploy.Spec.Strategy.RollingUpdate
		got := fmt.Sprintf("rollout %s %s, ready %d", rolling.MaxUnavailable, rolling.MaxSurge, deploy.Spec.MinReadySeconds)
		if spec.Affinity != nil {
			got += map[bool]string{true: "; required", false: "; preferred"}[len(spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0]
		}
		for _, c := range spec.TopologySpreadConstraints {
			got += fmt.Sprintf("; %s %s", c.TopologyKey, c.WhenUnsatisfiable)
		}
		if got != of.want {
			t.Errorf("%s:\n%s, want\n%s", of.set, got, of.want)
		}
	}
}

func TestCoreDNSIsSetDespiteAConflict(t *testing.T) {
	client := fake.NewClientset(
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"Corefile": "before"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}},
	)
	updates := 0
	client.PrependReactor("update", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		updates++
		return updates == 1, nil, apierrors.NewConflict(schema.GroupResource{Resource: "deployments"}, name, nil)
	})
	d := &CoreDNS{client: client}
	err := d.replace(t.Context(), "now", func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To(int32(3)) })
	if err != nil {
		t.Fatal(err)
	}
	cm, deploy, err := d.read(t.Context())
	if err != nil || cm.Data["Corefile"] != "now" || ptr.Deref(deploy.Spec.Replicas, 0) != 3 {
		t.Errorf("Corefile %q, %d replicas, %v", cm.Data["Corefile"], ptr.Deref(deploy.Spec.Replicas, 0), err)
	}
}
