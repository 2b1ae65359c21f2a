package clusterdns

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The add-on sets what EKS's sets, and no grace period.
func TestTheAddOnOfCoreDNS(t *testing.T) {
	live := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "kube-dns"}}}}
	objects := addOn(live, ownCorefile, "next")
	var cm corev1.ConfigMap
	var deploy appsv1.Deployment
	for i, into := range []any{&cm, &deploy} {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, into); err != nil {
			t.Fatal(err)
		}
	}
	pod := deploy.Spec.Template
	probe := pod.Spec.Containers[0].ReadinessProbe
	if cm.Data["Corefile"] != ownCorefile || *deploy.Spec.Replicas != 2 || probe.PeriodSeconds != 10 || probe.FailureThreshold != 3 || probe.HTTPGet.Path != "/ready" {
		t.Errorf("%+v, %+v", cm, deploy)
	}
	if pod.Spec.TerminationGracePeriodSeconds != nil || pod.Annotations[addOnVersion] != "next" || pod.Labels["k8s-app"] != "kube-dns" {
		t.Errorf("%+v", pod)
	}
}

func TestAnUpgradeIsTakenBack(t *testing.T) {
	owners := []metav1.ManagedFieldsEntry{{Manager: "kubeadm"}, {Manager: "eks"}, {Manager: "spotdrill"}}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ManagedFields: owners}}
	deploy := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{ManagedFields: owners}}
	deploy.Spec.Template.Annotations = map[string]string{addOnVersion: "next", settingsMark: "1"}
	withoutAddOn(cm, deploy)
	for _, obj := range []metav1.Object{cm, deploy} {
		if left := obj.GetManagedFields(); len(left) != 2 || left[0].Manager != "kubeadm" || left[1].Manager != "spotdrill" {
			t.Errorf("%v", left)
		}
	}
	if left := deploy.Spec.Template.Annotations; len(left) != 1 {
		t.Errorf("%v", left)
	}
}
