package clusterdns

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/framework/strict"
)

func TestCoreDNSRunsAsADaemonSet(t *testing.T) {
	labels := &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: service}}
	deploy := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appsv1.DeploymentSpec{Selector: labels}}
	want := coredns.Settings{
		Placement: coredns.OnSpot, Replicas: 3, DaemonSet: true, AntiAffinity: coredns.RequiredAntiAffinity,
		Rollout: coredns.Rollout{MaxUnavailable: "0", MaxSurge: "10%", MinReady: strict.Duration(9 * time.Second)},
	}
	setTemplate(deploy, appsv1.DeploymentSpec{}, want, "now")
	client := fake.NewClientset(deploy, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	d := &CoreDNS{client: client}
	if err := d.createDaemonSet(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	daemons, err := client.AppsV1().DaemonSets(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	spec, rolling := daemons.Spec.Template.Spec, daemons.Spec.UpdateStrategy.RollingUpdate
	if spec.Affinity != nil || spec.NodeSelector[nodes.CapacityLabel] != nodes.Spot || daemons.Spec.MinReadySeconds != 9 ||
		rolling.MaxUnavailable.String() != "0" || rolling.MaxSurge.String() != "10%" || daemons.Spec.Template.Annotations[settingsMark] != "now" {
		t.Errorf("got %+v", daemons.Spec)
	}

	// It is known how many pods there must be when the DaemonSet's controller has counted the nodes.
	if n, why := d.wanted(t.Context(), want); n != 0 || !strings.Contains(why, "not scheduled yet") {
		t.Errorf("%d, %q", n, why)
	}
	daemons.Status.DesiredNumberScheduled = 4
	if _, err := client.AppsV1().DaemonSets(namespace).UpdateStatus(t.Context(), daemons, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if n, why := d.wanted(t.Context(), want); n != 4 || why != "" {
		t.Errorf("%d, %q", n, why)
	}

	restarted := func() bool {
		ds, errDS := client.AppsV1().DaemonSets(namespace).Get(t.Context(), name, metav1.GetOptions{})
		return errDS == nil && ds.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] != ""
	}
	if err := d.Restart(t.Context()); err != nil || !restarted() {
		t.Errorf("restarted %t, %v", restarted(), err)
	}
	for range 2 { // once it is gone, that is no error
		if err := d.removeDaemonSet(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if there, err := d.hasDaemonSet(t.Context()); there || err != nil {
		t.Errorf("still there: %t, %v", there, err)
	}
	if n, why := d.wanted(t.Context(), coredns.Settings{Replicas: 2}); n != 2 || why != "" {
		t.Errorf("%d, %q", n, why)
	}
}
