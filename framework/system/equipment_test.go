package system

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/nodes"
)

// A handler's objects need the size of every worker, also of those that are lost: all of them, if
// all spot nodes are reclaimed at once.
func TestLostWorkersHaveTheSizeOfAnother(t *testing.T) {
	nodeOf := func(name, cpu string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelInstanceTypeStable: "m5.large"}}}
		if cpu != "" {
			n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110")}
		}
		return n
	}
	fixed := []cluster.Node{
		{Name: "plane", Capacity: nodes.ControlPlane},
		{Name: "stays", Capacity: nodes.OnDemand},
		{Name: "a", Capacity: nodes.Spot},
		{Name: "b", Capacity: nodes.Spot},
	}
	for name, c := range map[string]struct {
		nodes []runtime.Object
		want  string
	}{
		"none is lost":              {[]runtime.Object{nodeOf("a", "2"), nodeOf("b", "2"), nodeOf("stays", "4")}, "2"},
		"one is lost":               {[]runtime.Object{nodeOf("b", "2"), nodeOf("stays", "4")}, "2"},
		"one has just registered":   {[]runtime.Object{nodeOf("a", ""), nodeOf("b", "2"), nodeOf("stays", "4")}, "2"},
		"all are lost":              {[]runtime.Object{nodeOf("stays", "4")}, "4"},
		"all have just registered":  {[]runtime.Object{nodeOf("a", ""), nodeOf("b", ""), nodeOf("stays", "4")}, "4"},
		"nobody knows, for nothing": {nil, ""},
	} {
		hs := &Handlers{launches: &Launches{}, cluster: &cluster.Cluster{Nodes: fixed, Clientset: fake.NewClientset(c.nodes...)}}
		h, err := hs.WithWorkers(t.Context(), &Installation{Handler: handler.Description{Workers: handler.Workers{Capacity: nodes.Spot}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range h.Settings.Workers {
			if w.CPU != c.want || c.want != "" && w.InstanceType != "m5.large" {
				t.Errorf("%s: %s has %q processors, want %q", name, w.Node, w.CPU, c.want)
			}
		}
		if len(h.Settings.Workers) != 2 {
			t.Errorf("%s: %d workers", name, len(h.Settings.Workers))
		}
	}
}
