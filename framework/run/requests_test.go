package run

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/handler"
)

func TestWhichNodeAChangeIsAbout(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	claims := schema.GroupResource{Group: "karpenter.sh", Resource: "nodeclaims"}
	objects := []handler.WorkerObject{{Node: "worker", Of: claims, Name: "claim-of-worker"}}
	for name, x := range map[string]struct {
		change       cluster.Change
		node, object string
	}{
		"a Node is patched":               {cluster.Change{Verb: "patch", Of: nodes, Name: "worker"}, "worker", ""},
		"a Node is deleted":               {cluster.Change{Verb: "delete", Of: nodes, Name: "worker"}, "", ""},
		"a worker's object is deleted":    {cluster.Change{Verb: "delete", Of: claims, Name: "claim-of-worker"}, "worker", "nodeclaims.karpenter.sh claim-of-worker"},
		"a worker's object is patched":    {cluster.Change{Verb: "patch", Of: claims, Name: "claim-of-worker"}, "", ""},
		"an object of another is deleted": {cluster.Change{Verb: "delete", Of: claims, Name: "claim-of-no-node"}, "", ""},
		"a pod is deleted":                {cluster.Change{Verb: "delete", Of: schema.GroupResource{Resource: "pods"}, Namespace: "a", Name: "claim-of-worker"}, "", ""},
	} {
		if node, object := aboutNode(x.change, objects); node != x.node || object != x.object {
			t.Errorf("%s: about node %q by %q, want %q by %q", name, node, object, x.node, x.object)
		}
	}
}
