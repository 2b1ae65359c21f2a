package nodes

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/history"
)

// What a drill prepares on a node for an operator is all that cleaning it removes.
func TestWhatIsPreparedIsCleaned(t *testing.T) {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeNotReady}}},
	}
	before := n.DeepCopy()
	for _, state := range []history.Event{
		history.NewNodePrepared(history.PreparedCordon, "", ""),
		history.NewNodePrepared(history.PreparedTaint, "team.example.com/x", "NoSchedule"),
		history.NewNodePrepared(history.PreparedTaint, "team.example.com/x", "NoSchedule"), // twice is once
		history.NewNodePrepared(history.PreparedLabel, "example.com/y", "1"),
		history.NewNodePrepared(history.PreparedAnnotation, "example.com/z", "2"),
	} {
		prepare(n, state)
	}
	if !n.Spec.Unschedulable || len(n.Spec.Taints) != 2 || n.Labels["example.com/y"] != "1" || n.Annotations["example.com/z"] != "2" {
		t.Errorf("prepared %+v, %+v", n.ObjectMeta, n.Spec)
	}
	repaired := clean(n, func(string) bool { return false })
	if got := strings.Join(repaired, ", "); got != "n uncordoned, n without taint team.example.com/x, n without annotation example.com/z, n without label example.com/y" {
		t.Errorf("repaired %s", got)
	}
	if n.Spec.Unschedulable || len(n.Spec.Taints) != 1 || !maps.Equal(n.Labels, before.Labels) || len(n.Annotations) > 0 {
		t.Errorf("left %+v, %+v", n.ObjectMeta, n.Spec)
	}
}
