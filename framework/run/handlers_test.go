package run

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/recording"
)

func TestWhichNodeAChangeIsAbout(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	claims := schema.GroupResource{Group: "karpenter.sh", Resource: "nodeclaims"}
	objects := []handler.WorkerObject{{Node: "worker", Of: claims, Name: "claim-of-worker"}}
	for name, x := range map[string]struct {
		change       recording.Change
		node, object string
	}{
		"a Node is patched":               {recording.Change{Verb: "patch", Of: nodes, Name: "worker"}, "worker", ""},
		"a Node is deleted":               {recording.Change{Verb: "delete", Of: nodes, Name: "worker"}, "", ""},
		"a worker's object is deleted":    {recording.Change{Verb: "delete", Of: claims, Name: "claim-of-worker"}, "worker", "nodeclaims.karpenter.sh claim-of-worker"},
		"a worker's object is patched":    {recording.Change{Verb: "patch", Of: claims, Name: "claim-of-worker"}, "", ""},
		"an object of another is deleted": {recording.Change{Verb: "delete", Of: claims, Name: "claim-of-no-node"}, "", ""},
		"a pod is deleted":                {recording.Change{Verb: "delete", Of: schema.GroupResource{Resource: "pods"}, Namespace: "a", Name: "claim-of-worker"}, "", ""},
	} {
		if node, object := aboutNode(x.change, objects); node != x.node || object != x.object {
			t.Errorf("%s: about node %q by %q, want %q by %q", name, node, object, x.node, x.object)
		}
	}
}

func TestWhatTheHistoryHasOfAChange(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, x := range map[string]struct {
		change recording.Change
		want   history.Event
	}{
		"a Node is patched":       {recording.Change{Verb: "patch", Of: schema.GroupResource{Resource: "nodes"}, Name: "worker"}, history.NewHandlerWrote("", "worker", "")},
		"a pod is evicted":        {recording.Change{Verb: recording.Evict, Of: pods, Namespace: "a", Name: "b"}, history.NewHandlerTook("", "a/b")},
		"a pod is deleted":        {recording.Change{Verb: "delete", Of: pods, Namespace: "a", Name: "b"}, history.NewHandlerTook("", "a/b")},
		"all pods are deleted":    {recording.Change{Verb: "deletecollection", Of: pods, Namespace: "a"}, history.NewHandlerTook("", "a/")},
		"a pod is patched":        {recording.Change{Verb: "patch", Of: pods, Namespace: "a", Name: "b"}, history.Event{}},
		"all events are deleted":  {recording.Change{Verb: "deletecollection", Of: schema.GroupResource{Resource: "events"}, Namespace: "a"}, history.Event{}},
		"all Nodes are deleted":   {recording.Change{Verb: "deletecollection", Of: schema.GroupResource{Resource: "nodes"}}, history.Event{}},
		"a Deployment is patched": {recording.Change{Verb: "patch", Of: schema.GroupResource{Group: "apps", Resource: "deployments"}, Namespace: "a", Name: "b"}, history.Event{}},
	} {
		if got := asEvent(x.change, nil); !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: %+v, want %+v", name, got, x.want)
		}
	}
}
