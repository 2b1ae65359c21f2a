package recommend

import (
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestTryNextPod(t *testing.T) {
	container := func(s corev1.ContainerState) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "coredns", State: s}}}
	}
	for name, c := range map[string]struct {
		status  corev1.PodStatus
		unknown bool
		got     string // "" for no finding
	}{
		"it is Ready":                 {status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}},
		"it ends at once":             {status: container(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}), got: "does not start: container coredns ended with exit code 1: fake logs"},
		"it fails":                    {status: corev1.PodStatus{Phase: corev1.PodFailed}, got: "phase Failed"},
		"no image":                    {status: container(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"}}), unknown: true, got: "container coredns waits: ImagePullBackOff not found"},
		"no node":                     {status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"}}}, unknown: true, got: "0/3 nodes are available"},
		"nobody describes what it is": {status: corev1.PodStatus{Phase: corev1.PodPending}, unknown: true, got: "phase Pending"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, client := sound(), fake.NewClientset()
				client.PrependReactor("get", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
					if a.GetSubresource() != "" {
						return false, nil, nil
					}
					return true, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system"}, Status: c.status}, nil
				})
				found, err := TryNextPod(t.Context(), client, d)
				if err != nil {
					t.Fatal(err)
				}
				if (len(found) == 1) != (c.got != "") || len(found) > 0 && (found[0].Unknown != c.unknown || !strings.Contains(found[0].Got, c.got)) {
					t.Errorf("%+v, want %q", found, c.got)
				}
				left, err := client.CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{})
				if err != nil || len(left.Items) != 0 {
					t.Errorf("%d pods are left (%v)", len(left.Items), err)
				}
			})
		})
	}
}

// The pod is like CoreDNS's next one, and gets no query.
func TestTheNextPod(t *testing.T) {
	d := sound()
	p := nextPod(d)
	if p.Labels["k8s-app"] != "" || p.Spec.RestartPolicy != corev1.RestartPolicyNever || *p.Spec.ActiveDeadlineSeconds != 120 {
		t.Errorf("%+v", p)
	}
	if p.Spec.Containers[0].Name != "coredns" || p.Spec.Volumes[0].ConfigMap.Name != "coredns" {
		t.Errorf("%+v", p.Spec)
	}
}
