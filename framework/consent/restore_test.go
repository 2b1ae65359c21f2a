package consent

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

func keys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// crash ends the drill's process: nothing is put back, and the lock on the journal is gone.
func (d *drill) crash() Entry {
	d.t.Helper()
	if err := d.j.file.Close(); err != nil {
		d.t.Fatal(err)
	}
	left := mustPending(d.t, d.folder)
	if len(left) != 1 || left[0].Running {
		d.t.Fatalf("pending after a crash: %+v", left)
	}
	return left[0]
}

func (d *drill) crashAndRestore() string {
	d.t.Helper()
	words, err := RestorePending(context.Background(), d.api, d.crash())
	if err != nil {
		d.t.Errorf("restore: %v", err)
	}
	if left := mustPending(d.t, d.folder); len(left) > 0 {
		d.t.Errorf("still pending: %v", left)
	}
	return strings.Join(words, "; ")
}

func TestRestoreAfterACrash(t *testing.T) {
	played := func(d *drill) {
		if err := d.play(d.t.Context()); err != nil {
			d.t.Fatal(err)
		}
	}
	written := func(d *drill) {
		ctx, cancel := context.WithCancel(d.t.Context())
		cancel()
		_ = d.play(ctx)
	}
	noticed := func(d *drill) {
		ctx, cancel := context.WithCancel(d.t.Context())
		d.send = cancel
		_ = d.play(ctx)
	}
	for name, c := range map[string]struct {
		request Request
		until   func(*drill)
		since   func(*drill)
		want    string
	}{
		"the journal is written, and nothing is done": {drainN1, written, nil, "node n1 is left as it is: it does not have this drill's annotation"},
		"the node is drained":                         {drainN1, played, nil, "node n1 is uncordoned"},
		"a pod is evicted":                            {evictDNS, played, nil, "there is nothing to put back: the controller of pod kube-system/dns-1 creates another one"},
		"somebody uncordoned it":                      {drainN1, played, func(d *drill) { d.api.edit("n1", func(n *corev1.Node) { n.Spec.Unschedulable = false }) }, "it is as it was"},
		"the node is gone":                            {drainN1, played, func(d *drill) { d.api.deleteNode("n1") }, "node n1 is gone"},
		"another node of that name":                   {drainN1, played, func(d *drill) { d.api.edit("n1", func(n *corev1.Node) { n.UID = "uid-new" }) }, "node n1 is another one by now"},
		"the node is being deleted":                   {drainN1, played, func(d *drill) { d.api.edit("n1", beingDeleted) }, "node n1 is left as it is: it is being deleted"},
		"a taint of somebody": {drainN1, played, func(d *drill) {
			d.api.edit("n1", tainted("example.com/maintenance", "NoSchedule"))
		}, "node n1 stays cordoned: the taint example.com/maintenance:NoSchedule has come since"},
		"a taint of Kubernetes": {drainN1, played, func(d *drill) {
			d.api.edit("n1", tainted("node.kubernetes.io/unschedulable", "NoSchedule"))
		}, "node n1 is uncordoned"},
		"the Cluster Autoscaler removes the node": {drainN1, played, func(d *drill) {
			d.api.edit("n1", tainted("ToBeDeletedByClusterAutoscaler", "NoSchedule"))
		}, "node n1 stays cordoned: the taint ToBeDeletedByClusterAutoscaler:NoSchedule"},
		"a label of a handler": {drainN1, played, func(d *drill) {
			d.api.edit("n1", func(n *corev1.Node) { n.Labels["aws-node-termination-handler/action"] = "drain" })
		}, "node n1 stays cordoned: the label aws-node-termination-handler/action has come since"},
		"the drill was killed before it changed anything, and somebody cordons the node": {drainN1, written, func(d *drill) { d.api.edit("n1", cordoned) }, "node n1 is left as it is"},
		"somebody uncordoned it and cordoned it again": {drainN1, played, func(d *drill) {
			d.api.edit("n1", managedBy("kubectl-cordon", time.Now()))
		}, `node n1 stays cordoned: "kubectl-cordon" has cordoned it since`},
		"the cordon is the drill's": {drainN1, played, func(d *drill) {
			d.api.edit("n1", managedBy(fieldManager, time.Now()))
		}, "node n1 is uncordoned"},
		"the annotation of another drill": {drainN1, played, func(d *drill) {
			d.api.edit("n1", func(n *corev1.Node) {
				n.Annotations[drillAnnotation] = strings.Replace(n.Annotations[drillAnnotation], `{"id":"`, `{"id":"another`, 1)
			})
		}, "node n1 is left as it is"},
		"a notice that was not sent, and somebody cordons the node": {noticeN1, written, func(d *drill) { d.api.edit("n1", cordoned) }, "node n1 is left as it is"},
		"a notice, and the handler's cordon": {noticeN1, noticed, func(d *drill) {
			d.api.edit("n1", cordoned)
			d.api.edit("n1", managedBy("karpenter", time.Now()))
		}, "node n1 is uncordoned"},
		"a notice, and somebody's cordon": {noticeN1, noticed, func(d *drill) {
			d.api.edit("n1", cordoned)
			d.api.edit("n1", managedBy("kubectl-cordon", time.Now()))
		}, `node n1 stays cordoned: somebody has cordoned it since, with "kubectl-cordon"`},
		"a notice, and a cordon a day later": {noticeN1, noticed, func(d *drill) {
			d.api.edit("n1", cordoned)
			d.api.edit("n1", managedBy("maintenance", time.Now().Add(24*time.Hour)))
		}, `node n1 stays cordoned: "maintenance" has cordoned it at`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDrill(t, newWorld(), c.request)
				c.until(d)
				if c.since != nil {
					c.since(d)
				}
				before, _ := d.api.Tracker().Get(nodesResource, "", "n1")
				e := d.crash()
				words, err := RestorePending(t.Context(), d.api, e)
				if got := strings.Join(words, "; "); err != nil || !strings.Contains(got, c.want) {
					t.Errorf("restored: %s, %v; want %s", got, err, c.want)
				}
				if before != nil {
					n, old := d.api.node("n1"), before.(*corev1.Node)
					left := strings.Contains(c.want, "is left") || strings.Contains(c.want, "another") || strings.Contains(c.want, "stays cordoned")
					if n.Spec.Unschedulable != (left && old.Spec.Unschedulable) || len(n.Spec.Taints) != len(old.Spec.Taints) {
						t.Errorf("the node is %+v", n.Spec)
					}
				}
				if _, marked := d.api.annotations("n1")[drillAnnotation]; marked && (strings.Contains(c.want, "stays") || strings.Contains(c.want, "uncordoned")) {
					t.Error("the annotation is still there")
				}
				if words, err := RestorePending(t.Context(), d.api, e); err != nil || !slices.Equal(words, []string{"it was put back meanwhile"}) {
					t.Errorf("restored again: %q, %v", words, err)
				}
			})
		})
	}
}

// managedBy is a cordon that the API server has recorded as somebody's.
func managedBy(manager string, at time.Time) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &metav1.Time{Time: at},
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:unschedulable":{}}}`),
		}}
	}
}

// A CI runner that is cancelled takes its journal with it.
func TestTheClusterAloneIsEnoughToPutItBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrill(t, newWorld(), drainN1)
		if err := d.play(t.Context()); err != nil {
			t.Fatal(err)
		}
		here := d.j.cluster
		if err := os.Remove(d.crash().File); err != nil {
			t.Fatal(err)
		}
		if err := NotPutBack(t.Context(), d.api, t.TempDir(), here); err == nil || !strings.Contains(err.Error(), "a drill was not put back: drain of node n1 in context") {
			t.Errorf("not put back: %v", err)
		}
		if p := mustInspect(t, d.api, drainN1); !strings.Contains(p.Refused().Error(), "a drill has changed node n1 and not put it back") {
			t.Errorf("another drill: %v", p.Refused())
		}
		left, err := Marked(t.Context(), d.api, here)
		if err != nil || len(left) != 1 {
			t.Fatalf("marked: %v, %v", left, err)
		}
		if words, err := RestorePending(t.Context(), d.api, left[0]); err != nil || !slices.Equal(words, []string{"node n1 is uncordoned"}) || d.api.node("n1").Spec.Unschedulable {
			t.Errorf("restored: %q, %v", words, err)
		}
		if err := NotPutBack(t.Context(), d.api, t.TempDir(), here); err != nil {
			t.Errorf("not put back: %v", err)
		}
	})
}

// An annotation is what anybody with rights to nodes can write.
func TestAnAnnotationThatIsNotADrills(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON": "yes", "no drill": "{}", "an unknown field": `{"id":"a","run":"rm"}`, "too long": `{"id":"` + strings.Repeat("x", mostMarked) + `"}`,
		"another node": `{"id":"a","at":"2026-11-27T01:13:53Z","action":"drain","node":{"name":"n2","uid":"uid-n2","unschedulable":false}}`,
	} {
		a := newWorld().start()
		a.edit("n1", func(n *corev1.Node) { n.Annotations[drillAnnotation] = text })
		if left, err := Marked(t.Context(), a, Cluster{UID: testCluster}); err == nil || !strings.Contains(err.Error(), "of node n1 cannot be read") || len(left) > 0 {
			t.Errorf("%s: %v, %v", name, left, err)
		}
	}
}

func TestRestoreRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*drill, *Entry)
		want    string
	}{
		"another cluster": {func(_ *drill, e *Entry) { e.Cluster.UID = "cluster-2" }, `this is another cluster: its namespace kube-system has the UID cluster-1, and that of the drill (context "staging", server https://staging.example) has cluster-2`},
		"a drill that is still played": {func(d *drill, e *Entry) {
			f, err := os.Open(e.File)
			if err != nil {
				d.t.Fatal(err)
			}
			d.t.Cleanup(func() { _ = f.Close() })
			if free, err := lock(f); err != nil || !free {
				d.t.Fatal(free, err)
			}
		}, "another process plays it or puts it back now"},
		"an API server that does not answer": {func(d *drill, _ *Entry) {
			d.api.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("connection refused")
			})
		}, "put back node n1: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDrill(t, newWorld(), drainN1)
				if err := d.play(t.Context()); err != nil {
					t.Fatal(err)
				}
				e := d.crash()
				c.prepare(d, &e)
				if _, err := RestorePending(t.Context(), d.api, e); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("the error is %v, want %q", err, c.want)
				}
				if !d.api.node("n1").Spec.Unschedulable || len(mustPending(t, d.folder)) != 1 {
					t.Error("it was put back, or is no longer pending")
				}
			})
		})
	}
}

func TestPutBackWhileTheNodeChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrill(t, newWorld(), drainN1)
		if err := d.play(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.api.beforePatch = func() { d.api.edit("n1", beingDeleted) }
		if got := d.restore(); !strings.Contains(got, "it is being deleted") || !d.api.node("n1").Spec.Unschedulable {
			t.Errorf("put back: %s", got)
		}
	})
}
