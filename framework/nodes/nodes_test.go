package nodes

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestCleanRemovesOnlyADrainsMarks(t *testing.T) {
	marked := func(key string) bool { return strings.HasPrefix(key, "drill/") }
	node := func(cordoned bool, taints, annotations []string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{}}}
		n.Spec.Unschedulable = cordoned
		for _, key := range taints {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		}
		for _, key := range annotations {
			n.Annotations[key] = "x"
		}
		return n
	}
	tests := []struct {
		name     string
		node     *corev1.Node
		repaired []string
		taints   []string // that stay
	}{
		{name: "an untouched node is not written at all", node: node(false, nil, nil)},
		{name: "cordoned", node: node(true, []string{corev1.TaintNodeUnschedulable}, nil), repaired: []string{"n uncordoned"}},
		{name: "tainted by a handler", node: node(false, []string{"drill/gone", "team/gpu"}, nil), repaired: []string{"n without taint drill/gone"}, taints: []string{"team/gpu"}},
		{name: "annotated by a handler", node: node(false, nil, []string{"drill/state", "team/owner"}), repaired: []string{"n without annotation drill/state"}},
		{name: "Kubernetes' own taint of a dead node goes by itself", node: node(false, []string{corev1.TaintNodeUnreachable}, nil), taints: []string{corev1.TaintNodeUnreachable}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := clean(test.node, marked); !slices.Equal(got, test.repaired) {
				t.Errorf("repaired %q, want %q", got, test.repaired)
			}
			var taints []string
			for _, taint := range test.node.Spec.Taints {
				taints = append(taints, taint.Key)
			}
			if !slices.Equal(taints, test.taints) {
				t.Errorf("taints left %q, want %q", taints, test.taints)
			}
			if test.node.Spec.Unschedulable {
				t.Error("still cordoned")
			}
			for key := range test.node.Annotations {
				if marked(key) {
					t.Errorf("annotation %s is still there", key)
				}
			}
		})
	}
}

func TestWhatADrainLeavesIsCleaned(t *testing.T) {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{"example.org/drained": "1", "keep": "1"}},
		Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{
			{Key: "example.org/draining"}, {Key: corev1.TaintNodeUnschedulable}, {Key: corev1.TaintNodeNotReady},
		}},
	}
	repaired := clean(n, func(key string) bool { return strings.HasPrefix(key, "example.org/") })
	if got := strings.Join(repaired, ", "); got != "n uncordoned, n without taint example.org/draining, n without annotation example.org/drained" {
		t.Errorf("repaired %s", got)
	}
	if n.Spec.Unschedulable || len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != corev1.TaintNodeNotReady || len(n.Annotations) != 1 {
		t.Errorf("left %+v, %v", n.Spec, n.Annotations)
	}
}

func TestEvictable(t *testing.T) {
	owned := func(kind string) metav1.ObjectMeta {
		return metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: kind, Controller: ptr.To(true)}}}
	}
	tolerating := func(key string) corev1.Pod {
		return corev1.Pod{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: key, Operator: corev1.TolerationOpExists}}}}
	}
	tests := []struct {
		name string
		pod  corev1.Pod
		want bool
	}{
		{name: "bare pod", want: true},
		{name: "of a ReplicaSet", pod: corev1.Pod{ObjectMeta: owned("ReplicaSet")}, want: true},
		{name: "of a running Job", pod: corev1.Pod{ObjectMeta: owned("Job"), Status: corev1.PodStatus{Phase: corev1.PodRunning}}, want: true},
		{name: "tolerating a dead node", pod: tolerating(corev1.TaintNodeUnreachable), want: true},
		{name: "tolerating a cordon", pod: tolerating(corev1.TaintNodeUnschedulable)},
		{name: "tolerating everything", pod: tolerating("")},
		{name: "of a DaemonSet", pod: corev1.Pod{ObjectMeta: owned("DaemonSet")}},
		{name: "mirror of a file", pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}}}},
		{name: "succeeded", pod: corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}},
		{name: "failed", pod: corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := MustLeave(&test.pod); got != test.want {
				t.Errorf("evictable: %t, want %t", got, test.want)
			}
		})
	}
}
