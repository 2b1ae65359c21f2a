package handler

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

var settings = Settings{
	QueueURL: "http://queue/1", QueueName: "drill", Endpoint: "http://10.96.0.9:4566", Region: "eu-west-1",
	ClusterName: "spotdrill", Image: "localhost/spotdrill:1",
}

func loaded(t *testing.T, name string) []*unstructured.Unstructured {
	t.Helper()
	d, err := Load(name)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	objects, err := d.objects(settings)
	if err != nil {
		t.Fatalf("objects: %v", err)
	}
	return objects
}

func TestWhatIsInstalledAndInWhichOrder(t *testing.T) {
	var got []string
	for _, obj := range loaded(t, "testdata/valid.yaml") {
		got = append(got, referenceTo(obj).String())
		if obj.GetLabels()[ownerLabel] != "mine" {
			t.Errorf("%s does not say whose it is: %v", referenceTo(obj), obj.GetLabels())
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
	if c.Image != "example.org/mine:v1" || d.Labels["app"] != "mine" {
		t.Errorf("image %q, labels %v", c.Image, d.Labels)
	}
	want := "--queue=http://queue/1 --name=drill --at=http://10.96.0.9:4566 --region=eu-west-1 --cluster=spotdrill $(KUBERNETES) $HOME"
	if got := strings.Join(c.Args, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
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
			d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &two}, Status: c.status}
			d.Generation = 3
			if got := available(d); got != c.want {
				t.Errorf("available = %v, want %v", got, c.want)
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
