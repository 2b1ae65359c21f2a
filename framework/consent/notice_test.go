package consent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// tainted puts a taint on a node.
func tainted(key string, effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect})
	}
}

func TestNotice(t *testing.T) {
	mark := func(change func(*corev1.Node)) func(*drill) {
		return func(d *drill) { d.api.edit("n1", change) }
	}
	drains := func(d *drill) {
		for _, p := range []string{"dns-1", "web-1"} {
			for _, namespace := range []string{"kube-system", "shop"} {
				if obj, err := d.api.Tracker().Get(podsResource, namespace, p); err == nil {
					d.api.terminate(obj.(*corev1.Pod))
				}
			}
		}
	}
	for name, c := range map[string]struct {
		mark, then func(*drill) // 10 s and 20 s after the notice
		want       string       // empty: the drill succeeds
		is         error
		putBack    string
	}{
		"the handler cordons and drains":                 {mark(cordoned), drains, "", nil, "node n1 is uncordoned"},
		"it taints with NoSchedule":                      {mark(tainted("aws-node-termination-handler/spot-itn", "NoSchedule")), drains, "", nil, "taint aws-node-termination-handler/spot-itn:NoSchedule is removed"},
		"it taints with NoExecute":                       {mark(tainted("example.com/gone", "NoExecute")), drains, "", nil, "taint example.com/gone:NoExecute is removed"},
		"it deletes the Node, which a finalizer holds":   {mark(beingDeleted), drains, "", nil, "node n1 is left as it is: it is being deleted"},
		"the Node is gone":                               {mark(beingDeleted), func(d *drill) { d.api.deleteNode("n1") }, "", nil, "there is nothing to put back: node n1 is gone"},
		"another Node of that name":                      {mark(cordoned), mark(func(n *corev1.Node) { n.UID = "uid-new" }), "", nil, "node n1 is another one by now, with the UID uid-new"},
		"the mark is gone again when the pods are":       {mark(cordoned), func(d *drill) { d.api.edit("n1", func(n *corev1.Node) { n.Spec.Unschedulable = false }); drains(d) }, "", nil, "it is as it was"},
		"nothing happens":                                {nil, nil, "no handler received it in 3m0s: the node is neither cordoned nor has a new NoSchedule or NoExecute taint; 2 of 2 pods are still on node n1 (kube-system/dns-1, shop/web-1)", ErrNoHandler, "it is as it was"},
		"only PreferNoSchedule":                          {mark(tainted("example.com/soon", "PreferNoSchedule")), nil, "no handler received it", ErrNoHandler, "taint example.com/soon:PreferNoSchedule is removed"},
		"only a taint of Kubernetes":                     {mark(tainted("node.kubernetes.io/disk-pressure", "NoSchedule")), nil, "no handler received it", ErrNoHandler, "node.kubernetes.io/disk-pressure:NoSchedule of node n1 is left: it belongs to Kubernetes"},
		"only a taint of the Autoscaler":                 {mark(tainted("ToBeDeletedByClusterAutoscaler", "NoSchedule")), nil, "no handler received it", ErrNoHandler, "is left: it belongs to the Cluster Autoscaler"},
		"only an existing taint":                         {mark(func(n *corev1.Node) { n.Spec.Taints[0].Value = "new" }), nil, "no handler received it", ErrNoHandler, "it is as it was"},
		"the node is marked, and the pods stay":          {mark(cordoned), nil, "not all pods were moved in 3m0s, though the node was marked: 2 of 2 pods are still on node n1", ErrNotMoved, "node n1 is uncordoned"},
		"the pods go, and the node is not marked before": {nil, drains, "no handler received it in 3m0s: the node is neither cordoned nor has a new NoSchedule or NoExecute taint; 0 of 2 pods are still on node n1;", ErrNoHandler, "it is as it was"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDrill(t, newWorld(), noticeN1)
				d.send = func() {
					if len(mustPending(t, d.folder)) != 1 {
						t.Error("the notice is sent before the journal is written")
					}
					for f, after := range map[*func(*drill)]time.Duration{&c.mark: 10 * time.Second, &c.then: 20 * time.Second} {
						if *f != nil {
							time.AfterFunc(after, func() { (*f)(d) })
						}
					}
				}
				err := d.play(t.Context())
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("the error is %v, want %q", err, c.want)
				}
				if c.is != nil && !errors.Is(err, c.is) {
					t.Errorf("%v is not %v", err, c.is)
				}
				if e := d.events[0]; e.Kind != history.NoticePut || e.Step() != "notice" || e.Node != "n1" || e.Instance != testInstance || e.NoticeType() != "spot-interruption" {
					t.Errorf("the first event is %+v", e)
				}
				if got := d.restore(); !strings.Contains(got, c.putBack) {
					t.Errorf("put back: %s; want %s", got, c.putBack)
				}
			})
		})
	}
}

func TestANoticeThatCannotBeSent(t *testing.T) {
	d := newDrill(t, newWorld(), noticeN1)
	err := Play(t.Context(), d.api, d.plan, d.j, Hooks{Send: func(context.Context) error { return errors.New("AccessDenied") }})
	if err == nil || !strings.Contains(err.Error(), "send notice spot-interruption about instance "+testInstance+": AccessDenied") {
		t.Errorf("the error is %v", err)
	}
	if got := d.restore(); got != "node n1 needs nothing else: it is as it was" {
		t.Errorf("put back: %s", got)
	}
	if err := Play(t.Context(), d.api, d.plan, d.j, Hooks{}); err == nil || !strings.Contains(err.Error(), "nothing sends it") {
		t.Errorf("without Send: %v", err)
	}
}

// afterNotice is node n1 after a handler's work, and after what others did meanwhile.
func afterNotice(n *corev1.Node) {
	cordoned(n)
	for _, key := range []string{"example.com/draining", "draining", "node.kubernetes.io/unschedulable"} {
		tainted(key, corev1.TaintEffectNoSchedule)(n)
	}
	for _, key := range []string{"example.com/reason", "draining", "topology.kubernetes.io/zone", "node.k8s.io/pool"} {
		n.Labels[key] = "x"
	}
	for _, key := range []string{"example.com/since", "spotdrill.dev/draining", "cni.example.org/ip", "plain", "volumes.kubernetes.io/x"} {
		n.Annotations[key] = "x"
	}
	n.Labels["team"] = "changed"
}

func TestWhatIsRemovedAfterANotice(t *testing.T) {
	for name, c := range map[string]struct {
		restore     bool
		labels      []string // that are left
		annotations []string
	}{
		"immediately": {
			false,
			[]string{"node.k8s.io/pool", "team", "topology.kubernetes.io/zone"},
			[]string{"cni.example.org/ip", "note", "plain", "volumes.kubernetes.io/x"},
		},
		"after a crash, labels of others are left": {
			true,
			[]string{"draining", "node.k8s.io/pool", "team", "topology.kubernetes.io/zone"},
			[]string{"cni.example.org/ip", "note", "plain", "volumes.kubernetes.io/x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrill(t, newWorld(), noticeN1)
			e := Entry{ID: "D1", At: time.Now(), Action: scenarios.SendNotice, Node: stateOf(d.api.node("n1"))}
			if err := errors.Join(d.j.before(e), markNode(t.Context(), d.api, e)); err != nil {
				t.Fatal(err)
			}
			d.api.edit("n1", afterNotice)
			words := ""
			if c.restore {
				words = d.crashAndRestore()
			} else {
				words = d.restore()
			}
			n := d.api.node("n1")
			var taints []string
			for _, taint := range n.Spec.Taints {
				taints = append(taints, taint.Key)
			}
			if n.Spec.Unschedulable || !slices.Equal(taints, []string{"own", "node.kubernetes.io/unschedulable"}) {
				t.Errorf("cordoned: %t, taints %q", n.Spec.Unschedulable, taints)
			}
			if got := keys(n.Labels); !slices.Equal(got, c.labels) {
				t.Errorf("labels %q, want %q", got, c.labels)
			}
			if got := keys(n.Annotations); !slices.Equal(got, c.annotations) {
				t.Errorf("annotations %q, want %q", got, c.annotations)
			}
			if left := strings.Contains(words, "label draining of node n1 is left"); left != c.restore || n.Labels["team"] != "changed" {
				t.Errorf("put back: %s", words)
			}
		})
	}
}
