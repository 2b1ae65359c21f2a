package run

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/objects"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

func TestEveryKindOfPodsHasAManifest(t *testing.T) {
	values := map[string]string{"NAMESPACE": "spotdrill-workload-1", "IMAGE": "image", "NODE": "spot-1", "CAPACITY": "spot", "OTHER": "spot-2"}
	for _, kind := range scenarios.PodKinds() {
		objs, err := objects.Decode(t.Context(), manifests, "manifests/pods/"+kind+".yaml", values)
		if err != nil || len(objs) == 0 {
			t.Errorf("%s: %d objects (%v)", kind, len(objs), err)
			continue
		}
		text, err := manifests.ReadFile("manifests/pods/" + kind + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if label := "labels: {app: " + kind + "}"; !strings.Contains(string(text), label) {
			t.Errorf("%s: its pods lack %s, by which budgets and checks find them", kind, label)
		}
	}
	files, err := manifests.ReadDir("manifests/pods")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(scenarios.PodKinds()) {
		t.Errorf("%d manifests for %d kinds", len(files), len(scenarios.PodKinds()))
	}
}

func TestABudgetsManifest(t *testing.T) {
	objs, err := objects.Decode(t.Context(), manifests, "manifests/budget.yaml", map[string]string{"NAME": "app", "NAMESPACE": "spotdrill-workload-1", "PODS": "app", "MIN_AVAILABLE": "5", "POLICY": "AlwaysAllow"})
	if err != nil || len(objs) != 1 || objs[0].GetName() != "app" {
		t.Errorf("%+v (%v)", objs, err)
	}
}

func TestWhyAPodHasNotStarted(t *testing.T) {
	running := func(node string, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec:       corev1.PodSpec{NodeName: node},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		}
	}
	pending := running("", corev1.ConditionFalse)
	pending.Status.Phase = corev1.PodPending
	for name, c := range map[string]struct {
		pod   *corev1.Pod
		ready bool
		want  string
	}{
		"it has":                         {running("spot-1", corev1.ConditionTrue), true, ""},
		"not put anywhere":               {pending, true, "p has phase Pending"},
		"put elsewhere":                  {running("spot-2", corev1.ConditionTrue), true, "p was scheduled on spot-2"},
		"not Ready":                      {running("spot-1", corev1.ConditionFalse), true, "p is not Ready"},
		"not Ready, and not meant to be": {running("spot-1", corev1.ConditionFalse), false, ""},
	} {
		if got := whyNotStarted(c.pod, "spot-1", c.ready); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestWhereTheWorkloadRuns(t *testing.T) {
	for where, c := range map[string]struct {
		workload scenarios.Workload
		required bool
	}{
		"on spot nodes":       {scenarios.Workload{}, true},
		"first on spot nodes": {scenarios.Workload{Spill: true}, false},
		"on what is launched": {scenarios.Workload{Launched: true}, true},
	} {
		values := podsOf(c.workload)
		maps.Copy(values, map[string]string{"NAMESPACE": "spotdrill-workload-1", "IMAGE": "image", "REPLICAS": "3", "WHERE": asYAML(whereToRun(c.workload, "spot-2"))})
		objs, err := objects.Decode(t.Context(), manifests, "manifests/workload.yaml", values)
		if err != nil || len(objs) != 1 {
			t.Fatalf("%s: %d objects (%v)", where, len(objs), err)
		}
		affinity := objs[0].(*appsv1.Deployment).Spec.Template.Spec.Affinity.NodeAffinity
		needed, preferred := affinity.RequiredDuringSchedulingIgnoredDuringExecution, affinity.PreferredDuringSchedulingIgnoredDuringExecution
		if (needed != nil) != c.required || (len(preferred) == 1) == c.required {
			t.Errorf("%s: %+v", where, affinity)
		}
	}
}

// Pods that leave a drill's node must not move to that of the drill next to it.
func TestPodsOfADrillKeepOffTheNodesOfTheOther(t *testing.T) {
	other := &drill{nodes: map[string]cluster.Node{"victim": {Name: "spot-2"}, "bystander": {Name: "spot-3"}}}
	other.Scenario.Steps = []scenarios.Step{{Notice: &scenarios.Notice{Nodes: []string{"victim"}}}}
	one := &drill{alongside: []*drill{other}}
	values := map[string]string{"NAMESPACE": "spotdrill-workload-1", "IMAGE": "image", "NODE": "spot-1", "CAPACITY": "spot", "OTHER": one.otherTarget()}
	for _, kind := range scenarios.PodKinds() {
		objs, err := objects.Decode(t.Context(), manifests, "manifests/pods/"+kind+".yaml", values)
		if err != nil {
			t.Fatal(err)
		}
		for _, obj := range objs {
			var pod corev1.PodSpec
			switch o := obj.(type) {
			case *appsv1.Deployment:
				pod = o.Spec.Template.Spec
			case *appsv1.StatefulSet:
				pod = o.Spec.Template.Spec
			case *batchv1.Job:
				pod = o.Spec.Template.Spec
			default:
				continue // a pod that nothing brings back
			}
			required := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			want := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"spot-2"}}
			if required == nil || !reflect.DeepEqual(required.NodeSelectorTerms[0].MatchExpressions[0], want) {
				t.Errorf("%s: %+v", kind, required)
			}
		}
	}
}

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
