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

	corev1 "k8s.io/api/core/v1"
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
	for name, c := range map[string]struct {
		request Request
		until   func(*drill)
		since   func(*drill)
		want    string
	}{
		"the journal is written, and nothing is done": {drainN1, written, nil, "node n1 needs nothing else: it is as it was"},
		"the node is drained":                         {drainN1, played, nil, "node n1 is uncordoned"},
		"a pod is evicted":                            {evictDNS, played, nil, "there is nothing to put back: the controller of pod kube-system/dns-1 creates another one"},
		"somebody uncordoned it":                      {drainN1, played, func(d *drill) { d.api.edit("n1", func(n *corev1.Node) { n.Spec.Unschedulable = false }) }, "it is as it was"},
		"the node is gone":                            {drainN1, played, func(d *drill) { d.api.deleteNode("n1") }, "node n1 is gone"},
		"another node of that name":                   {drainN1, played, func(d *drill) { d.api.edit("n1", func(n *corev1.Node) { n.UID = "uid-new" }) }, "node n1 is another one by now"},
		"the node is being deleted":                   {drainN1, played, func(d *drill) { d.api.edit("n1", beingDeleted) }, "node n1 is left as it is: it is being deleted"},
		"a drain touches no taints": {drainN1, played, func(d *drill) {
			d.api.edit("n1", tainted("example.com/maintenance", "NoSchedule"))
		}, "node n1 is uncordoned"},
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
					left := strings.Contains(c.want, "is left") || strings.Contains(c.want, "another")
					if n.Spec.Unschedulable != (left && old.Spec.Unschedulable) || len(n.Spec.Taints) != len(old.Spec.Taints) {
						t.Errorf("the node is %+v", n.Spec)
					}
				}
				if words, err := RestorePending(t.Context(), d.api, e); err != nil || !slices.Equal(words, []string{"it was put back meanwhile"}) {
					t.Errorf("restored again: %q, %v", words, err)
				}
			})
		})
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
