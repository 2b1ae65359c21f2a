package kubeproxy

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// A run that is killed while another kube-proxy runs must not lose the original image,
// nor take a second replacement for it.
func TestTheOriginalKubeProxyIsPutBack(t *testing.T) {
	ctx := t.Context()
	proxies := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}}
	proxies.Spec.Template.Spec.Containers = []corev1.Container{{Name: "sidecar", Image: "s"}, {Name: name, Image: "original"}}
	proxies.Status = appsv1.DaemonSetStatus{DesiredNumberScheduled: 5, UpdatedNumberScheduled: 5, NumberAvailable: 5}
	client := fake.NewClientset(proxies)
	for _, step := range []struct {
		do   func() error
		want string
	}{
		{func() error { return Restore(ctx, client) }, "original"},
		{func() error { return Set(ctx, client, "broken") }, "broken"},
		{func() error { return Set(ctx, client, "fixed") }, "fixed"},
		{func() error { return Restore(ctx, client) }, "original"},
		{func() error { return Restore(ctx, client) }, "original"},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		d, err := read(ctx, client)
		if err != nil {
			t.Fatal(err)
		}
		if got := imageOf(d.Spec.Template.Spec.Containers, name); got != step.want {
			t.Errorf("image %s, want %s", got, step.want)
		}
		if got := imageOf(d.Spec.Template.Spec.Containers, "sidecar"); got != "s" {
			t.Errorf("the other container's image is %s", got)
		}
	}
}

func TestWhyNotRolledOut(t *testing.T) {
	for _, c := range []struct {
		status appsv1.DaemonSetStatus
		want   string
	}{
		{appsv1.DaemonSetStatus{ObservedGeneration: 6, DesiredNumberScheduled: 5, UpdatedNumberScheduled: 5, NumberAvailable: 5}, "has not seen"},
		{appsv1.DaemonSetStatus{ObservedGeneration: 7}, "replaced pods: 0 of 0"},
		{appsv1.DaemonSetStatus{ObservedGeneration: 7, DesiredNumberScheduled: 5, UpdatedNumberScheduled: 4, NumberAvailable: 5}, "replaced pods: 4 of 5"},
		{appsv1.DaemonSetStatus{ObservedGeneration: 7, DesiredNumberScheduled: 5, UpdatedNumberScheduled: 5, NumberAvailable: 4}, "available pods: 4 of 5"},
		{appsv1.DaemonSetStatus{ObservedGeneration: 7, DesiredNumberScheduled: 5, UpdatedNumberScheduled: 5, NumberAvailable: 5}, ""},
	} {
		got := whyNotRolledOut(&appsv1.DaemonSet{Status: c.status}, 7)
		if !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%+v: %q, want %q", c.status, got, c.want)
		}
	}
}
