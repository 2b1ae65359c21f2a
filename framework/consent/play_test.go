package consent

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// tooMany is what the Eviction API answers if a budget allows no eviction.
func tooMany() error {
	return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
}

// drill is one drill, played on synctest's clock.
type drill struct {
	t      *testing.T
	api    *apiServer
	folder string
	plan   Plan
	j      *Journal
	events []history.Event
	send   func()
}

func newDrill(t *testing.T, w *world, r Request) *drill {
	d := &drill{t: t, api: w.start(), folder: t.TempDir()}
	d.plan, d.j = mustInspect(t, d.api, r), mustOpen(t, d.folder)
	return d
}

func (d *drill) play(ctx context.Context) error {
	return Play(ctx, d.api, d.plan, d.j, Hooks{
		Record: func(e history.Event) { d.events = append(d.events, e) },
		Send: func(context.Context) error {
			if d.send != nil {
				d.send()
			}
			return nil
		},
	})
}

// putBack puts back, checks that nothing is pending then, and returns what was reported.
func (d *drill) restore() string {
	d.t.Helper()
	words, err := Restore(context.Background(), d.api, d.j)
	if err != nil {
		d.t.Errorf("put back: %v", err)
	}
	if err := d.j.Close(); err != nil {
		d.t.Error(err)
	}
	if left := mustPending(d.t, d.folder); len(left) > 0 {
		d.t.Errorf("still pending: %v", left)
	}
	return strings.Join(words, "; ")
}

func TestPlay(t *testing.T) {
	for name, c := range map[string]struct {
		request Request
		first   history.Event
		evicted []string
		putBack string
	}{
		"an eviction": {
			evictDNS,
			history.NewDNSDisrupted("evict", history.Node("n1"), history.Pod("kube-system/dns-1"), history.UID("uid-dns-1")),
			[]string{"kube-system/dns-1"},
			"there is nothing to put back",
		},
		"a drain": {
			drainN1,
			history.NewOperatorActed("", "drain", "n1", history.Instance(testInstance)),
			[]string{"kube-system/dns-1", "shop/web-1"},
			"node n1 is uncordoned",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDrill(t, newWorld(), c.request)
				began := time.Now()
				if err := d.play(t.Context()); err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(d.events[0], c.first) {
					t.Errorf("the first event is %+v, want %+v", d.events[0], c.first)
				}
				if got := d.api.asked(); !slices.Equal(got, c.evicted) {
					t.Errorf("evicted %q, want %q", got, c.evicted)
				}
				drained := c.request.Action == scenarios.DrainNode
				if took := time.Since(began); drained != (took >= d.api.grace) {
					t.Errorf("it took %s, and pods terminate for %s", took, d.api.grace)
				}
				if got := d.api.node("n1").Spec.Unschedulable; got != drained {
					t.Errorf("cordoned: %t", got)
				}
				if left := mustPending(t, d.folder); len(left) != 1 || !left[0].Running {
					t.Errorf("pending before it is put back: %v", left)
				}
				if got := d.restore(); !strings.Contains(got, c.putBack) {
					t.Errorf("put back: %s", got)
				}
				if n := d.api.node("n1"); n.Spec.Unschedulable || len(n.Spec.Taints) != 1 {
					t.Errorf("the node is not as it was: %+v", n.Spec)
				}
				if again, err := Restore(t.Context(), d.api, d.j); err != nil || len(again) > 0 {
					t.Errorf("put back again: %q, %v", again, err)
				}
			})
		})
	}
}

func TestChangedBetweenPlanAndPlay(t *testing.T) {
	for name, c := range map[string]struct {
		request Request
		change  func(*drill)
		want    string
	}{
		"another node of that name": {drainN1, func(d *drill) { d.api.edit("n1", func(n *corev1.Node) { n.UID = "uid-new" }) }, "node n1 is not the one of the plan"},
		"the node was cordoned":     {drainN1, func(d *drill) { d.api.edit("n1", cordoned) }, "inspected again: the drill is refused: node n1 is already cordoned"},
		"the node is gone":          {drainN1, func(d *drill) { d.api.deleteNode("n1") }, "not the one of the plan"},
		"another instance": {noticeN1, func(d *drill) {
			d.api.edit("n1", func(n *corev1.Node) { n.Spec.ProviderID = "aws:///eu-west-1a/i-0fedcba9876543210" })
		}, "the instance of node n1 is now"},
		"the pod was replaced": {evictDNS, func(d *drill) { _ = d.api.Tracker().Delete(podsResource, "kube-system", "dns-1") }, "the pod to evict is now kube-system/dns-2"},
		"another cluster":      {drainN1, func(d *drill) { d.j.cluster.UID = "cluster-2" }, "this is another cluster"},
		"a plan that is refused": {drainN1, func(d *drill) {
			d.plan.Refusals = []string{"of the moon"}
		}, "the drill is refused: of the moon"},
		"a plan that nobody made": {drainN1, func(d *drill) { d.plan = Plan{Request: drainN1} }, "not the one of the plan"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrill(t, newWorld(), c.request)
			c.change(d)
			d.api.ClearActions()
			d.send = func() { t.Error("the notice was sent") }
			if err := d.play(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
			for _, a := range d.api.Actions() {
				if a.GetVerb() != "get" && a.GetVerb() != "list" {
					t.Errorf("it changed something: %v", a)
				}
			}
			if len(d.events) > 0 || len(mustPending(t, d.folder)) > 0 {
				t.Errorf("on record: %v; pending: %v", d.events, mustPending(t, d.folder))
			}
		})
	}
}

func TestWhatABudgetRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		request Request
		refused string        // the pod
		with    error         // the answer
		during  time.Duration // 0: for ever
		want    string        // empty: the drill succeeds
		is      error
		took    time.Duration
	}{
		"for a minute":             {drainN1, "shop/web-1", tooMany(), time.Minute, "", nil, time.Minute + 3*time.Second},
		"for ever":                 {drainN1, "shop/web-1", tooMany(), 0, "for 2m0s no eviction was accepted; shop/web-1: 25 evictions refused, the last with: Cannot evict pod", ErrNotMoved, 2*time.Minute + 3*time.Second},
		"a CoreDNS pod":            {evictDNS, "kube-system/dns-1", tooMany(), 0, "kube-system/dns-1: 25 evictions refused", ErrNotMoved, 2 * time.Minute},
		"two budgets since":        {drainN1, "shop/web-1", apierrors.NewInternalError(errors.New("This pod has more than one PodDisruptionBudget")), 0, "evict pod shop/web-1: Internal error", nil, 0},
		"its namespace terminates": {drainN1, "shop/web-1", terminatingNamespace(), 0, "not all pods were moved from node n1 in 10m0s: shop/web-1 is evicted and terminates", ErrNotMoved, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDrill(t, newWorld(), c.request)
				d.api.refuse[c.refused] = c.with
				if c.during > 0 {
					d.api.until[c.refused] = time.Now().Add(c.during)
				}
				began := time.Now()
				err := d.play(t.Context())
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("the error is %v, want %q", err, c.want)
				}
				if c.is != nil && !errors.Is(err, c.is) {
					t.Errorf("%v is not %v", err, c.is)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %s, want %s", took, c.took)
				}
				d.restore()
				if d.api.node("n1").Spec.Unschedulable {
					t.Error("the node is still cordoned")
				}
			})
		})
	}
}

func terminatingNamespace() error {
	err := apierrors.NewForbidden(podsResource.GroupResource(), "web-1", nil)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	return err
}

func TestAStatefulSetsReplacementIsNotEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrill(t, newWorld(), drainN1)
		d.api.refuse["shop/web-1"], d.api.until["shop/web-1"] = tooMany(), time.Now().Add(time.Minute)
		// Meanwhile the pod of that name ends, and another one comes up on another node.
		time.AfterFunc(30*time.Second, func() {
			p := testPod("shop/web-1", "n2")
			p.UID = "uid-replacement"
			_ = d.api.Tracker().Update(podsResource, p, "shop")
		})
		if err := d.play(t.Context()); err != nil {
			t.Fatal(err)
		}
		obj, err := d.api.Tracker().Get(podsResource, "shop", "web-1")
		if err != nil || obj.(*corev1.Pod).UID != types.UID("uid-replacement") || obj.(*corev1.Pod).DeletionTimestamp != nil {
			t.Errorf("the replacement was evicted: %v, %v", obj, err)
		}
	})
}

func TestSomebodyCordonsTheNodeFirst(t *testing.T) {
	d := newDrill(t, newWorld(), drainN1)
	d.api.beforePatch = func() { d.api.edit("n1", cordoned) }
	if err := d.play(t.Context()); err == nil || !strings.Contains(err.Error(), "somebody else cordoned it") {
		t.Errorf("the error is %v", err)
	}
	if got := d.restore(); got != "" || !d.api.node("n1").Spec.Unschedulable {
		t.Errorf("their cordon was removed: %s", got)
	}
	if len(d.api.asked()) > 0 {
		t.Errorf("evicted %q", d.api.asked())
	}
}

func TestTheNodeChangesWhileItIsCordoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrill(t, newWorld(), drainN1)
		d.api.beforePatch = func() { d.api.edit("n1", func(n *corev1.Node) { n.Annotations["heartbeat"] = "2" }) }
		if err := d.play(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := d.api.node("n1"); !n.Spec.Unschedulable || n.Annotations["heartbeat"] != "2" {
			t.Errorf("the other change is lost, or the node is not cordoned: %+v", n)
		}
	})
}

func TestAPodWithoutConsentComesBeforeTheCordon(t *testing.T) {
	d := newDrill(t, newWorld(), drainN1)
	d.api.beforePatch = func() {
		p := testPod("shop/debug", "n1")
		p.OwnerReferences = nil
		_ = d.api.Tracker().Add(p)
	}
	if err := d.play(t.Context()); err == nil || !strings.Contains(err.Error(), "a pod came to node n1 before it was cordoned") {
		t.Errorf("the error is %v", err)
	}
	if len(d.api.asked()) > 0 || d.restore() != "node n1 is uncordoned" {
		t.Errorf("evicted %q", d.api.asked())
	}
}

func TestAbort(t *testing.T) {
	for name, c := range map[string]struct {
		request Request
		at      time.Duration
		want    string
	}{
		"before anything is done": {drainN1, 0, "aborted before anything was done"},
		"in a drain":              {drainN1, 29500 * time.Millisecond, "aborted; shop/web-1: 6 evictions refused"},
		"in an eviction":          {evictDNS, 29500 * time.Millisecond, "aborted; kube-system/dns-1: 6 evictions refused"},
		"after a notice":          {noticeN1, 29500 * time.Millisecond, "aborted: 2 of 2 pods are still on node n1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDrill(t, newWorld(), c.request)
				d.api.refuse["shop/web-1"], d.api.refuse["kube-system/dns-1"] = tooMany(), tooMany()
				if c.request.Action == scenarios.DrainNode {
					delete(d.api.refuse, "kube-system/dns-1")
				}
				d.send = func() { d.api.edit("n1", cordoned) }
				ctx, cancel := context.WithTimeout(t.Context(), c.at)
				defer cancel()
				err := d.play(ctx)
				if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the error is %v, want %q", err, c.want)
				}
				d.restore()
				if d.api.node("n1").Spec.Unschedulable {
					t.Error("the node is still cordoned")
				}
			})
		})
	}
}
