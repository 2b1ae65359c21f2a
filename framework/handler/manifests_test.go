package handler

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/kind"
)

var settings = Settings{
	QueueURL: "http://queue/1", QueueName: "drill", Endpoint: "http://10.96.0.9:4566", Region: "eu-west-1",
	ClusterName: "spotdrill", Image: "localhost/spotdrill:1",
	Workers: []Worker{
		{Node: "worker2", Instance: "i-2", ProviderID: "aws:///a/i-2", InstanceType: "m", Zone: "a", Capacity: "spot", CPU: "2", Memory: "8Gi", Pods: "110"},
		{Node: "worker3", Instance: "i-3", ProviderID: "aws:///a/i-3", InstanceType: "c", Zone: "a", Capacity: "spot", CPU: "2", Memory: "4Gi", Pods: "110"},
	},
}

func loaded(t *testing.T, name string) []*unstructured.Unstructured {
	t.Helper()
	d, err := Load(name)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	objects, err := Installation{Description: d, Settings: settings}.objects()
	if err != nil {
		t.Fatalf("objects: %v", err)
	}
	return objects
}

func TestWhatIsInstalledAndInWhichOrder(t *testing.T) {
	var got []string
	for _, obj := range loaded(t, "testdata/valid.yaml") {
		got = append(got, referenceTo(obj).String())
		if obj.GetLabels()[OwnerLabel] != "mine" {
			t.Errorf("%s does not show whose it is: %v", referenceTo(obj), obj.GetLabels())
		}
	}
	want := "Namespace spotdrill-handler, CustomResourceDefinition things.example.org, Secret spotdrill-handler/aws-credentials, " +
		"ServiceAccount spotdrill-handler/mine, Deployment spotdrill-handler/mine"
	if strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
}

func TestPlaceholdersAreFilled(t *testing.T) {
	objects := loaded(t, "testdata/valid.yaml")
	var d appsv1.Deployment
	convert(t, objects[len(objects)-1], &d)
	c := d.Spec.Template.Spec.Containers[0]
	if c.Image != "localhost/spotdrill:1" || d.Labels["app"] != "mine" {
		t.Errorf("image %q, labels %v", c.Image, d.Labels)
	}
	want := "--queue=http://queue/1 --name=drill --at=http://10.96.0.9:4566 --region=eu-west-1 --cluster=spotdrill $(KUBERNETES) $HOME"
	if got := strings.Join(c.Args, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestEachWorkerGetsItsOwn(t *testing.T) {
	var got []string
	for _, obj := range loaded(t, "testdata/valid-workers.yaml") {
		if obj.GetKind() == "Claim" || obj.GetKind() == "Deployment" {
			got = append(got, fmt.Sprintf("%s of %q: %v %v", referenceTo(obj), obj.GetLabels()[workerLabel], obj.Object["spec"], obj.Object["status"]))
		}
	}
	want := []string{
		`Claim worker2 of "worker2": map[cluster:spotdrill type:m zone:a] map[capacity:map[cpu:2 memory:8Gi pods:110] id:aws:///a/i-2]`,
		`Claim worker3 of "worker3": map[cluster:spotdrill type:c zone:a] map[capacity:map[cpu:2 memory:4Gi pods:110] id:aws:///a/i-3]`,
		`Deployment spotdrill-handler/mine of ""`, // only when all else is there
	}
	if len(got) != 3 || got[0] != want[0] || got[1] != want[1] || !strings.HasPrefix(got[2], want[2]) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAWorkersObjectsAreNamedAsTheAuditLogDoes(t *testing.T) {
	d, err := Load("karpenter")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := Installation{Description: d, Settings: settings}.WorkerObjects()
	if err != nil {
		t.Fatal(err)
	}
	claims := schema.GroupResource{Group: "karpenter.sh", Resource: "nodeclaims"}
	if want := []WorkerObject{{Node: "worker2", Of: claims, Name: "worker2"}, {Node: "worker3", Of: claims, Name: "worker3"}}; !slices.Equal(objects, want) {
		t.Errorf("got %v, want %v", objects, want)
	}
}

func TestTagsAndLabelsOfAWorker(t *testing.T) {
	d, err := Load("testdata/valid-workers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(Installation{Description: d, Settings: settings}.Tags(settings.Workers[1])); got != "map[cluster:spotdrill node:worker3]" {
		t.Errorf("got tags %s", got)
	}
	if got, want := (Installation{Description: d, Settings: settings}).Labels(settings.Workers[1]), map[string]string{"example.org/instance": settings.Workers[1].Instance}; !maps.Equal(got, want) {
		t.Errorf("got labels %v, want %v", got, want)
	}
}

func TestSettingsOfAFeature(t *testing.T) {
	d, err := Load("testdata/valid-workers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"": "[]", "spot": "[]", "rebalance-drain": "[{DRAIN true} {HOME /}]"} {
		if asSetting := d.For("", name); !asSetting.Same(d.For(name, "")) {
			t.Errorf("%q: as a setting, the handler has others than as a feature", name)
		}
		objects, err := Installation{Description: d.For(name, ""), Settings: settings}.objects()
		if err != nil {
			t.Fatal(err)
		}
		var deployment appsv1.Deployment
		convert(t, objects[len(objects)-1], &deployment)
		got := "["
		for i, v := range deployment.Spec.Template.Spec.Containers[0].Env {
			if i > 0 {
				got += " "
			}
			got += fmt.Sprintf("{%s %s}", v.Name, v.Value)
		}
		if got += "]"; got != want {
			t.Errorf("feature %q: %s, want %s", name, got, want)
		}
		if same := d.Same(d.For(name, "")); same != (want == "[]") {
			t.Errorf("feature %q: the handler need not be installed again: %v", name, same)
		}
	}
}

// Before a drill of its feature, the changes are in the objects that are installed.
func TestAConfigurationIsMerged(t *testing.T) {
	d, err := Load("karpenter")
	if err != nil {
		t.Fatal(err)
	}
	for feature, want := range map[string]string{"": "Never WhenEmpty 3 types", "expiration": "90s WhenEmpty 3 types", "consolidation": "Never WhenEmpty 1 types"} {
		objects, err := Installation{Description: d.For(feature, ""), Settings: settings}.objects()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "NodePool" && o.GetName() == "launched" })
		expires, _, _ := unstructured.NestedString(objects[i].Object, "spec", "template", "spec", "expireAfter")
		policy, _, _ := unstructured.NestedString(objects[i].Object, "spec", "disruption", "consolidationPolicy")
		requirements, _, _ := unstructured.NestedSlice(objects[i].Object, "spec", "template", "spec", "requirements")
		types, _, _ := unstructured.NestedSlice(requirements[1].(map[string]any), "values")
		if got := fmt.Sprintf("%s %s %d types", expires, policy, len(types)); got != want {
			t.Errorf("feature %q: %s, want %s", feature, got, want)
		}
		if same := d.Same(d.For(feature, "")); same != (feature == "") {
			t.Errorf("feature %q: the handler need not be installed again: %v", feature, same)
		}
	}
	nowhere := &unstructured.Unstructured{}
	nowhere.SetKind("NodePool")
	nowhere.SetName("another")
	if err := mergeAll(nil, []*unstructured.Unstructured{nowhere}); err == nil || !strings.Contains(err.Error(), "change NodePool another: the handler's manifests have no such object") {
		t.Errorf("a change of nothing: %v", err)
	}
}

func TestHandlersOfOthersAreInstalledInOrder(t *testing.T) {
	for name, want := range map[string]string{
		"karpenter": "Namespace, 5 CustomResourceDefinition, Secret, ServiceAccount, ClusterRole, ClusterRoleBinding, ClusterRole, ClusterRoleBinding, " +
			"Role, RoleBinding, Role, RoleBinding, EC2NodeClass, 2 NodePool, 2 NodeClaim, Deployment",
		"nth": "Namespace, Secret, ServiceAccount, ClusterRole, ClusterRoleBinding, Deployment",
	} {
		var kinds []string
		count := 0
		objects := loaded(t, name)
		for i, obj := range objects {
			count++
			if i+1 < len(objects) && objects[i+1].GetKind() == obj.GetKind() {
				continue
			}
			kind := obj.GetKind()
			if count > 1 {
				kind = fmt.Sprint(count, " ", kind)
			}
			kinds, count = append(kinds, kind), 0
		}
		if got := strings.Join(kinds, ", "); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
		}
		var d appsv1.Deployment
		convert(t, objects[len(objects)-1], &d)
		if pod := d.Spec.Template.Spec; pod.Containers[0].Image != settings.Image || pod.NodeSelector["nodegroup"] != "on-demand" {
			t.Errorf("%s: image %s, on %v", name, pod.Containers[0].Image, pod.NodeSelector)
		}
	}
}

// The definitions must be those of the version that is run.
func TestDefinitionsAreKarpentersOwn(t *testing.T) {
	d, err := Load("karpenter")
	if err != nil {
		t.Fatal(err)
	}
	versions, err := kind.ImageOptions{}.Known(kind.Karpenter)
	if err != nil || !slices.Contains(versions, d.Version) {
		t.Fatalf("%s is not among %v, %v", d.Version, versions, err)
	}
	for _, version := range versions {
		cmd := exec.Command("go", "mod", "download", "-json", "github.com/aws/karpenter-provider-aws@"+version)
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOTOOLCHAIN=auto")
		out, err := cmd.Output()
		var module struct{ Dir string }
		if err != nil || json.Unmarshal(out, &module) != nil {
			t.Logf("karpenter %s cannot be had: %v", version, err)
			continue
		}
		theirs, err := filepath.Glob(filepath.Join(module.Dir, "pkg", "apis", "crds", "*.yaml"))
		if err != nil || len(theirs) == 0 {
			t.Fatalf("no definitions in %s, %v", module.Dir, err)
		}
		at, err := d.AtRelease(kind.Release{Program: kind.Karpenter, Version: version})
		if err != nil {
			t.Fatal(err)
		}
		if len(at.definitions) != len(theirs) || version == d.Version && !slices.Equal(at.definitions, d.definitions) {
			t.Errorf("%s: %d definitions, the module has %d", version, len(at.definitions), len(theirs))
		}
		for i, file := range theirs { // both are in the order of their names
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got := at.definitions[i].text; strings.TrimPrefix(string(want), "---\n") != got {
				t.Errorf("%s: %s is not the module's", version, filepath.Base(file))
			}
		}
	}
}

func TestAHandlersFinalizersAreNobodyElses(t *testing.T) {
	for finalizer, kubernetes := range map[string]bool{
		"karpenter.sh/termination":                    false,
		"karpenter.k8s.aws/termination":               false,
		"example.org/mine":                            false,
		"foregroundDeletion":                          true,
		"orphan":                                      true,
		"kubernetes":                                  true,
		"kubernetes.io/pvc-protection":                true,
		"customresourcecleanup.apiextensions.k8s.io":  true,
		"service.kubernetes.io/load-balancer-cleanup": true,
	} {
		if got := kubernetesFinalizer(finalizer); got != kubernetes {
			t.Errorf("kubernetesFinalizer(%q) = %v", finalizer, got)
		}
	}
}

func TestTheBuiltInManifests(t *testing.T) {
	seen := map[string]bool{}
	for _, obj := range loaded(t, "builtin") {
		seen[obj.GetKind()] = true
		switch obj.GetKind() {
		case "Secret":
			var s corev1.Secret
			convert(t, obj, &s)
			if s.Name != CredentialsSecret || s.StringData["AWS_ACCESS_KEY_ID"] != "test" || s.StringData["AWS_SECRET_ACCESS_KEY"] != "test" {
				t.Errorf("credentials %+v", s)
			}
		case "Deployment":
			var d appsv1.Deployment
			convert(t, obj, &d)
			pod := d.Spec.Template.Spec
			if d.Namespace != DefaultNamespace || pod.Containers[0].Image != settings.Image || pod.NodeSelector["nodegroup"] != "on-demand" {
				t.Errorf("deployment in %s: image %s, on %v", d.Namespace, pod.Containers[0].Image, pod.NodeSelector)
			}
		}
	}
	for _, kind := range []string{"Namespace", "Secret", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Deployment"} {
		if !seen[kind] {
			t.Errorf("no %s", kind)
		}
	}
}

// Another installation shares no namespaced object with that of the handler under test, and has
// credentials of its own.
func TestAnotherInstallationIsApart(t *testing.T) {
	d, err := Load("nth")
	if err != nil {
		t.Fatal(err)
	}
	for name, namespace := range map[string]string{history.OtherHandler: "spotdrill-second-handler", "lane-3": "spotdrill-lane-3-handler"} {
		other := settings
		other.Installation = name
		objects, err := Installation{Description: d, Settings: other}.objects()
		if err != nil {
			t.Fatal(err)
		}
		for _, obj := range objects {
			if in := cmp.Or(obj.GetNamespace(), namespace); in != namespace || obj.GetKind() == namespaceKind && obj.GetName() != namespace {
				t.Errorf("%s is not in %s", referenceTo(obj), namespace)
			}
			if obj.GetKind() == "Secret" {
				var s corev1.Secret
				convert(t, obj, &s)
				if key := s.StringData["AWS_ACCESS_KEY_ID"]; key != history.AccessKeyPrefix+name {
					t.Errorf("access key %q, want %q", key, history.AccessKeyPrefix+name)
				}
			}
		}
		if got := (Installation{Description: d, Settings: other}).Workload(); got != namespace+"/aws-node-termination-handler" {
			t.Errorf("its pods are those of %s", got)
		}
	}
}

// convert is strict: a field that the type does not have is an error.
func convert(t *testing.T, from *unstructured.Unstructured, to any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(from.Object, to, true); err != nil {
		t.Fatalf("convert %s: %v", referenceTo(from), err)
	}
}

func TestADeploymentIsAvailableOnlyWhenItIsTheNewOne(t *testing.T) {
	two := int32(2)
	for name, c := range map[string]struct {
		status appsv1.DeploymentStatus
		want   bool
	}{
		"all replicas of this generation": {appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}, true},
		"an older generation":             {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}, false},
		"one of two":                      {appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 1}, false},
		"an old pod still there":          {appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 3, UpdatedReplicas: 2, AvailableReplicas: 2}, false},
		"nothing yet":                     {appsv1.DeploymentStatus{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "mine", Namespace: "ns", Generation: 3}, Spec: appsv1.DeploymentSpec{Replicas: &two}, Status: c.status}
			seen, err := running{client: fake.NewClientset(d), namespace: "ns", name: "mine"}.read(t.Context())
			if err != nil || seen.available != c.want {
				t.Errorf("available = %v, want %v (%v)", seen.available, c.want, err)
			}
		})
	}
}

// A DaemonSet whose nodes are not labelled yet needs no pod at all.
func TestADaemonSetIsAvailableOnlyOnAllWorkers(t *testing.T) {
	for name, c := range map[string]struct {
		status appsv1.DaemonSetStatus
		want   bool
	}{
		"on all workers":          {appsv1.DaemonSetStatus{ObservedGeneration: 3, DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberAvailable: 2}, true},
		"an older generation":     {appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberAvailable: 2}, false},
		"available on one of two": {appsv1.DaemonSetStatus{ObservedGeneration: 3, DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberAvailable: 1}, false},
		"an old pod still there":  {appsv1.DaemonSetStatus{ObservedGeneration: 3, DesiredNumberScheduled: 2, UpdatedNumberScheduled: 1, NumberAvailable: 2}, false},
		"meant for one of two":    {appsv1.DaemonSetStatus{ObservedGeneration: 3, DesiredNumberScheduled: 1, UpdatedNumberScheduled: 1, NumberAvailable: 1}, false},
		"meant for no node":       {appsv1.DaemonSetStatus{ObservedGeneration: 3}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "mine", Namespace: "ns", Generation: 3}, Status: c.status}
			seen, err := running{client: fake.NewClientset(d), daemonSet: true, namespace: "ns", name: "mine", workers: 2}.read(t.Context())
			if err != nil || seen.available != c.want {
				t.Errorf("available = %v, want %v (%v)", seen.available, c.want, err)
			}
		})
	}
}

func TestWhyAPodIsNotReadyIsSaid(t *testing.T) {
	p := &corev1.Pod{Status: corev1.PodStatus{
		Phase:      corev1.PodPending,
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/5 nodes are available"}},
		ContainerStatuses: []corev1.ContainerStatus{
			{Name: "a", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImageNeverPull"}}},
			{Name: "b", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 64, Reason: "Error"}}},
		},
	}}
	want := "Pending; 0/5 nodes are available; a waits: ErrImageNeverPull; b ended with exit code 64: Error"
	if got := state(p); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A handler is stopped without what runs its pods and without the workers' objects, and
// keeps the rest.
func TestWhatAStoppedHandlerLacks(t *testing.T) {
	d, err := Load("karpenter")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := Installation{Description: d, Settings: settings}.temporary()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range referencesTo(objects) {
		got = append(got, r.String())
	}
	if want := "NodeClaim worker2, NodeClaim worker3, Deployment spotdrill-handler/karpenter"; strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
}

// Objects of one rank are removed at once: what runs pods before what it needs, and the
// namespace last.
func TestRanks(t *testing.T) {
	for kind, want := range map[string]int{
		"Namespace": namespaceRank, "CustomResourceDefinition": definitionRank, "ClusterRole": otherRank, "NodeClaim": otherRank,
		"Deployment": runningRank, "DaemonSet": runningRank, "Pod": runningRank,
	} {
		if got := (reference{Kind: kind}).rank(); got != want || got > lastRank {
			t.Errorf("%s has rank %d, want %d", kind, got, want)
		}
	}
}

// Whatever runs pods, each of its containers finds the API server at the proxy, and has its
// other variables as before.
func TestEveryContainerIsRoutedThroughTheProxy(t *testing.T) {
	for kind, path := range map[string][]string{
		"Pod": {"spec"}, "Deployment": {"spec", "template", "spec"}, "DaemonSet": {"spec", "template", "spec"},
		"StatefulSet": {"spec", "template", "spec"}, "Job": {"spec", "template", "spec"}, "CronJob": {"spec", "jobTemplate", "spec", "template", "spec"},
	} {
		obj := &unstructured.Unstructured{Object: map[string]any{"kind": kind}}
		spec := map[string]any{
			"initContainers": []any{map[string]any{"name": "first"}},
			"containers": []any{map[string]any{"name": "main", "env": []any{
				map[string]any{"name": "LEVEL", "value": "debug"}, map[string]any{"name": "KUBERNETES_SERVICE_HOST", "value": "elsewhere"},
			}}, map[string]any{"name": "sidecar"}},
		}
		if err := unstructured.SetNestedMap(obj.Object, spec, path...); err != nil {
			t.Fatal(err)
		}
		if err := route(obj, Settings{APIHost: "10.96.0.9", APIPort: "6443"}); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(obj.Object)
		for part, times := range map[string]int{
			"name:KUBERNETES_SERVICE_HOST value:10.96.0.9": 3, "name:KUBERNETES_SERVICE_PORT value:6443": 3, "name:LEVEL value:debug": 1, "elsewhere": 0,
		} {
			if n := strings.Count(text, part); n != times {
				t.Errorf("%s: %q is there %d times, want %d: %s", kind, part, n, times, text)
			}
		}
	}
}

func TestWhatRunsNoPodsIsNotRouted(t *testing.T) {
	obj := &unstructured.Unstructured{Object: map[string]any{"kind": "ConfigMap", "spec": map[string]any{"containers": []any{map[string]any{}}}}}
	if err := route(obj, Settings{APIHost: "10.96.0.9", APIPort: "6443"}); err != nil || strings.Contains(fmt.Sprint(obj.Object), "KUBERNETES") {
		t.Errorf("%v, %v", obj.Object, err)
	}
}

// Those of the handlers that come with the product are routed when they are installed.
func TestTheProductsHandlersAreRouted(t *testing.T) {
	routed := settings
	routed.APIHost, routed.APIPort = "10.96.0.9", "6443"
	for _, name := range []string{"builtin", "karpenter", "nth"} {
		d, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := Installation{Description: d, Settings: routed}.objects()
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, obj := range objects {
			found += strings.Count(fmt.Sprint(obj.Object), "KUBERNETES_SERVICE_HOST value:10.96.0.9")
		}
		if found == 0 {
			t.Errorf("%s: no container is routed", name)
		}
	}
}
