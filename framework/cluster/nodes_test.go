package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhyNotReady(t *testing.T) {
	ready := func(status corev1.ConditionStatus, change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		if change != nil {
			change(n)
		}
		return n
	}
	tests := []struct {
		name string
		node *corev1.Node
		want string
	}{
		{name: "ready", node: ready(corev1.ConditionTrue, nil)},
		{name: "control plane", node: ready(corev1.ConditionTrue, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane"}}
		})},
		{name: "never reported", node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, want: "node n has Ready=Unknown"},
		{name: "not ready", node: ready(corev1.ConditionFalse, nil), want: "node n has Ready=False"},
		{name: "tainted", node: ready(corev1.ConditionTrue, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a/b"}} }), want: "node n has taint a/b"},
		{name: "cordoned", node: ready(corev1.ConditionTrue, func(n *corev1.Node) { n.Spec.Unschedulable = true }), want: "node n is cordoned"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := whyNotReady(test.node); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
