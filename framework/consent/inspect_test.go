package consent

import (
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

func TestPlan(t *testing.T) {
	onN2 := evictDNS
	onN2.Node = "n2"
	for name, c := range map[string]struct {
		request  Request
		moves    []string
		pod      string
		instance string
	}{
		"an eviction takes the first ready CoreDNS pod": {evictDNS, []string{"kube-system/dns-1"}, "kube-system/dns-1", ""},
		"an eviction takes a pod of the node":           {onN2, []string{"kube-system/dns-2"}, "kube-system/dns-2", ""},
		"a drain moves what kubectl drain moves":        {drainN1, []string{"kube-system/dns-1", "shop/web-1"}, "/", testInstance},
		"a notice moves the same":                       {noticeN1, []string{"kube-system/dns-1", "shop/web-1"}, "/", testInstance},
	} {
		t.Run(name, func(t *testing.T) {
			p := mustInspect(t, newWorld().start(), c.request)
			if err := p.Refused(); err != nil {
				t.Error(err)
			}
			if !slices.Equal(p.Moves, c.moves) || p.Pod.String() != c.pod || p.Instance != c.instance {
				t.Errorf("moves %q, pod %s, instance %q; want %q, %s, %q", p.Moves, p.Pod, p.Instance, c.moves, c.pod, c.instance)
			}
			if got := p.Request.Notice.Instances; c.request.Action == scenarios.SendNotice && !slices.Equal(got, []string{testInstance}) {
				t.Errorf("the notice is about %q", got)
			}
			for _, text := range [][]string{p.Touches, p.Safe, p.Restore} {
				if len(text) == 0 {
					t.Errorf("a part of the plan is empty: %+v", p)
				}
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	with := func(r Request, change func(*Request)) Request { change(&r); return r }
	emptyDir := []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	hostPath := []corev1.Volume{{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}}}
	for name, c := range map[string]struct {
		request Request
		world   func(*world)
		want    string // a part of the only refusal; empty: not refused
	}{
		"one CoreDNS pod": {evictDNS, func(w *world) { w.slices = []*discoveryv1.EndpointSlice{endpointSlice("ipv4", "dns-1")} }, "has 1 ready CoreDNS pod (kube-system/dns-1), and a drill needs 2"},
		"one is not ready": {evictDNS, func(w *world) {
			w.endpoint("dns-2", func(c *discoveryv1.EndpointConditions) { c.Ready = ptr.To(false) })
		}, "has 1 ready CoreDNS pod (kube-system/dns-1)"},
		"one is not serving": {drainN1, func(w *world) {
			w.endpoint("dns-2", func(c *discoveryv1.EndpointConditions) { c.Serving = ptr.To(false) })
		}, "has 1 ready CoreDNS pod (kube-system/dns-1)"},
		"one terminates": {evictDNS, func(w *world) {
			w.endpoint("dns-1", func(c *discoveryv1.EndpointConditions) { c.Terminating = ptr.To(true) })
		}, "has 1 ready CoreDNS pod (kube-system/dns-2)"},
		"no CoreDNS": {evictDNS, func(w *world) { w.slices = nil }, "has 0 ready CoreDNS pods (none)"},
		"conditions that are unknown": {evictDNS, func(w *world) {
			w.endpoint("dns-1", func(c *discoveryv1.EndpointConditions) { *c = discoveryv1.EndpointConditions{} })
		}, ""},
		"no CoreDNS pod on the node":  {with(evictDNS, func(r *Request) { r.Node = "cp" }), nil, "no ready CoreDNS pod is on node cp: they are on n1, n2"},
		"another Service has no pods": {with(evictDNS, func(r *Request) { r.DNSService = "coredns" }), nil, "Service kube-system/coredns has 0 ready"},
		"all CoreDNS on the node":     {drainN1, func(w *world) { w.pods["kube-system/dns-2"].Spec.NodeName = "n1" }, "all ready CoreDNS pods (kube-system/dns-1, kube-system/dns-2) are on node n1"},
		"CoreDNS as DaemonSet pods on the node stay in a drain": {drainN1, func(w *world) {
			w.pods["kube-system/dns-1"].OwnerReferences[0].Kind = "DaemonSet"
			w.pods["kube-system/dns-2"].Spec.NodeName = "n1"
		}, ""},
		"CoreDNS as DaemonSet pods on the node may go by a notice": {noticeN1, func(w *world) {
			w.pods["kube-system/dns-1"].OwnerReferences[0].Kind = "DaemonSet"
			w.pods["kube-system/dns-2"].Spec.NodeName = "n1"
		}, "none would remain"},

		"a budget without a disruption": {drainN1, func(w *world) { w.budget("shop/web", "web", 0) }, "PodDisruptionBudget shop/web allows no eviction now (1 pod healthy, it requires 1), and it covers shop/web-1"},
		"CoreDNS's budget":              {evictDNS, func(w *world) { w.budget("kube-system/dns", "dns", 0) }, "PodDisruptionBudget kube-system/dns allows no eviction"},
		"a budget of another node's pods": {drainN1, func(w *world) {
			w.pods["shop/db-0"] = testPod("shop/db-0", "n2")
			w.budget("shop/db", "db", 0)
		}, ""},
		"a budget of another namespace":  {drainN1, func(w *world) { w.budget("other/web", "web", 0) }, ""},
		"a budget of pods that stay":     {drainN1, func(w *world) { w.budget("shop/job", "job", 0) }, ""},
		"a budget that is not processed": {drainN1, func(w *world) { w.budget("shop/web", "web", 1).Generation = 1 }, "shop/web allows no eviction"},
		"a budget without a selector":    {drainN1, func(w *world) { w.budget("shop/web", "web", 0).Spec.Selector = nil }, ""},
		"a budget of every pod":          {drainN1, func(w *world) { w.budget("shop/web", "web", 0).Spec.Selector = &metav1.LabelSelector{} }, "shop/web allows no eviction"},
		"two budgets":                    {drainN1, func(w *world) { w.budget("shop/a", "web", 1); w.budget("shop/b", "web", 1) }, "pod shop/web-1 has more than one PodDisruptionBudget"},
		"a pod that has not started has no budget": {drainN1, func(w *world) {
			w.budget("shop/web", "web", 0)
			w.pods["shop/web-1"].Status = corev1.PodStatus{Phase: corev1.PodPending}
		}, ""},
		"an unhealthy pod, and the others are healthy": {drainN1, func(w *world) {
			w.budget("shop/web", "web", 0)
			w.pods["shop/web-1"].Status.Conditions = nil
		}, ""},
		"an unhealthy pod, and the others are not healthy": {drainN1, func(w *world) {
			w.budget("shop/web", "web", 0).Status.CurrentHealthy = 0
			w.pods["shop/web-1"].Status.Conditions = nil
		}, "shop/web allows no eviction"},
		"an unhealthy pod that may always go": {drainN1, func(w *world) {
			b := w.budget("shop/web", "web", 0)
			b.Status.CurrentHealthy, b.Spec.UnhealthyPodEvictionPolicy = 0, ptr.To(policyv1.AlwaysAllow)
			w.pods["shop/web-1"].Status.Conditions = nil
		}, ""},

		"emptyDir":                                     {drainN1, func(w *world) { w.pods["shop/web-1"].Spec.Volumes = emptyDir }, "1 pod would lose the data in emptyDir volumes: shop/web-1"},
		"emptyDir, allowed":                            {with(drainN1, func(r *Request) { r.DeleteEmptyDir = true }), func(w *world) { w.pods["shop/web-1"].Spec.Volumes = emptyDir }, ""},
		"emptyDir of the CoreDNS pod":                  {evictDNS, func(w *world) { w.pods["kube-system/dns-1"].Spec.Volumes = emptyDir }, ""},
		"emptyDir of a pod that stays":                 {drainN1, func(w *world) { w.pods["kube-system/kube-proxy"].Spec.Volumes = emptyDir }, ""},
		"hostPath":                                     {drainN1, func(w *world) { w.pods["shop/web-1"].Spec.Volumes = hostPath }, ""},
		"a bare pod":                                   {drainN1, func(w *world) { w.pods["shop/web-1"].OwnerReferences = nil }, "nothing would create 1 pod again, which has no controller: shop/web-1"},
		"a bare pod, allowed":                          {with(drainN1, func(r *Request) { r.Force = true }), func(w *world) { w.pods["shop/web-1"].OwnerReferences = nil }, ""},
		"a bare CoreDNS pod":                           {evictDNS, func(w *world) { w.pods["kube-system/dns-1"].OwnerReferences = nil }, "nothing would create 1 pod again"},
		"a node that is cordoned":                      {drainN1, func(w *world) { cordoned(w.nodes["n1"]) }, "node n1 is already cordoned"},
		"a node that is not Ready":                     {drainN1, func(w *world) { w.nodes["n1"].Status.Conditions[0].Status = corev1.ConditionUnknown }, "node n1 is not Ready: its condition Ready is Unknown"},
		"a node without a condition":                   {drainN1, func(w *world) { w.nodes["n1"].Status.Conditions = nil }, "node n1 is not Ready: it has no condition"},
		"a node that is deleted":                       {drainN1, func(w *world) { beingDeleted(w.nodes["n1"]) }, "node n1 is being deleted"},
		"a control-plane node":                         {drainN1, func(w *world) { w.nodes["n1"].Labels["node-role.kubernetes.io/control-plane"] = "" }, "node n1 is of the control plane"},
		"no such node":                                 {with(drainN1, func(r *Request) { r.Node = "n9" }), nil, "there is no node n9"},
		"no other node for the pods":                   {drainN1, func(w *world) { cordoned(w.nodes["n2"]); cordoned(w.nodes["cp"]) }, "no other node is Ready and schedulable"},
		"nothing to move":                              {drainN1, func(w *world) { delete(w.pods, "shop/web-1"); w.pods["kube-system/dns-1"].Spec.NodeName = "cp" }, "node n1 has no pods to move"},
		"no instance":                                  {noticeN1, func(w *world) { w.nodes["n1"].Spec.ProviderID = "kind://docker/n1" }, `providerID "kind://docker/n1", which names no EC2 instance`},
		"a node of Fargate":                            {noticeN1, func(w *world) { w.nodes["n1"].Spec.ProviderID = "aws:///eu-west-1a/fargate-1" }, "names no EC2 instance"},
		"a drain needs no instance":                    {drainN1, func(w *world) { w.nodes["n1"].Spec.ProviderID = "" }, ""},
		"a pod in an EndpointSlice is no longer there": {evictDNS, func(w *world) { delete(w.pods, "kube-system/dns-2") }, "has 1 ready CoreDNS pod"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			if c.world != nil {
				c.world(w)
			}
			p := mustInspect(t, w.start(), c.request)
			if c.want == "" {
				if err := p.Refused(); err != nil {
					t.Error(err)
				}
				return
			}
			if !slices.ContainsFunc(p.Refusals, func(r string) bool { return strings.Contains(r, c.want) }) {
				t.Errorf("refusals are %q, want one with %q", p.Refusals, c.want)
			}
			if err := p.Refused(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the plan is refused with %v", err)
			}
		})
	}
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	notice := func(n cloud.Notice) Request { r := noticeN1; r.Notice = n; return r }
	for want, r := range map[string]Request{
		`unknown action "reboot"`:       {Action: "reboot"},
		"the action drain needs a node": {Action: scenarios.DrainNode},
		"needs a queue":                 {Action: scenarios.SendNotice, Node: "n1", Notice: noticeN1.Notice},
		"unknown notice type":           notice(cloud.Notice{Type: "storm"}),
		"names a reservation":           notice(cloud.Notice{Type: history.CapacityBlockExpiration}),
		"only the instance of the node": notice(cloud.Notice{Type: history.ScheduledChange, Health: cloud.Health{NoEntities: true}}),
		"the field instance-id":         notice(cloud.Notice{Type: history.StateChange, Detail: map[string]any{"instance-id": "i-0"}}),
	} {
		if _, err := Inspect(t.Context(), newWorld().start(), r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}

func TestWriteText(t *testing.T) {
	w := newWorld()
	w.nodes["n1"].Labels[poolLabel] = "spot"
	cordoned(w.nodes["n1"])
	var b strings.Builder
	if err := mustInspect(t, w.start(), noticeN1).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	const file = "testdata/plan.txt"
	want, err := os.ReadFile(file)
	if err != nil || b.String() != string(want) {
		t.Errorf("%v; %s differs from:\n%s", err, file, b.String())
	}
}
