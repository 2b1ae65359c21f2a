package consent

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

const (
	testCluster  = types.UID("cluster-1")
	testInstance = "i-0123456789abcdef0"
)

// world is a cluster with two workers, a CoreDNS pod on each, and pods of all kinds on node n1.
// A drain moves kube-system/dns-1 and shop/web-1.
type world struct {
	nodes   map[string]*corev1.Node
	pods    map[string]*corev1.Pod
	budgets map[string]*policyv1.PodDisruptionBudget
	slices  []*discoveryv1.EndpointSlice
}

func newWorld() *world {
	w := &world{nodes: map[string]*corev1.Node{}, pods: map[string]*corev1.Pod{}, budgets: map[string]*policyv1.PodDisruptionBudget{}}
	for _, name := range []string{"n1", "n2", "cp"} {
		w.nodes[name] = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1", Labels: map[string]string{"team": "shop"}, Annotations: map[string]string{"note": "old"}},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "own", Effect: corev1.TaintEffectPreferNoSchedule}}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
	}
	w.nodes["n1"].Spec.ProviderID = "aws:///eu-west-1a/" + testInstance
	w.nodes["cp"].Labels["node-role.kubernetes.io/control-plane"] = ""

	for name, node := range map[string]string{
		"kube-system/dns-1": "n1", "kube-system/dns-2": "n2", "shop/web-1": "n1", "shop/web-2": "n2",
		"kube-system/kube-proxy": "n1", "kube-system/static": "n1", "shop/job": "n1", "shop/going": "n1", "observe/prober": "n1",
	} {
		w.pods[name] = testPod(name, node)
	}
	w.pods["kube-system/kube-proxy"].OwnerReferences[0].Kind = "DaemonSet"
	w.pods["kube-system/static"].Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	w.pods["shop/job"].Status.Phase = corev1.PodSucceeded
	going := w.pods["shop/going"]
	going.DeletionTimestamp, going.Finalizers = ptr.To(metav1.Now()), []string{"test/kubelet"}
	prober := w.pods["observe/prober"]
	prober.OwnerReferences, prober.Labels = nil, map[string]string{partOfLabel: partOfObserve}
	prober.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}

	w.budget("kube-system/dns", "dns", 1)
	w.slices = []*discoveryv1.EndpointSlice{endpointSlice("ipv4", "dns-1", "dns-2"), endpointSlice("ipv6", "dns-1", "dns-2")}
	return w
}

// testPod is a ready pod of a ReplicaSet. Its label app is its name without the number.
func testPod(id, node string) *corev1.Pod {
	namespace, name, _ := strings.Cut(id, "/")
	app, _, _ := strings.Cut(name, "-")
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": app},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-5d", Controller: ptr.To(true)}},
		},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

func endpointSlice(family string, pods ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns-" + family, Labels: map[string]string{discoveryv1.LabelServiceName: "kube-dns"}}}
	for _, p := range pods {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: "kube-system", Name: p},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
		})
	}
	return s
}

// budget adds a PodDisruptionBudget that covers the pods of an app.
func (w *world) budget(id, app string, allowed int32) *policyv1.PodDisruptionBudget {
	namespace, name, _ := strings.Cut(id, "/")
	w.budgets[id] = &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status:     policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 1 + allowed, DesiredHealthy: 1, DisruptionsAllowed: allowed},
	}
	return w.budgets[id]
}

// endpoint changes the conditions of a CoreDNS pod in every EndpointSlice.
func (w *world) endpoint(pod string, change func(*discoveryv1.EndpointConditions)) {
	for _, s := range w.slices {
		for i := range s.Endpoints {
			if s.Endpoints[i].TargetRef.Name == pod {
				change(&s.Endpoints[i].Conditions)
			}
		}
	}
}

// apiServer is client-go's fake with what it lacks: conflicts of resourceVersions, and evictions.
type apiServer struct {
	*fake.Clientset

	mu      sync.Mutex
	evicted []string             // names of pods, refused or not
	refuse  map[string]error     // what the Eviction API answers, by pod, until the time in until
	until   map[string]time.Time // zero: for ever
	grace   time.Duration        // how long an evicted pod terminates
	// beforePatch runs once before the next patch of a node, and afterPatch once after it.
	beforePatch, afterPatch func()
	away                    atomic.Bool // the API of Leases does not answer
}

func (w *world) start() *apiServer {
	objects := []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: testCluster}}}
	for _, n := range w.nodes {
		objects = append(objects, n)
	}
	for _, p := range w.pods {
		objects = append(objects, p)
	}
	for _, b := range w.budgets {
		objects = append(objects, b)
	}
	for _, s := range w.slices {
		objects = append(objects, s)
	}
	a := &apiServer{Clientset: fake.NewClientset(objects...), refuse: map[string]error{}, until: map[string]time.Time{}, grace: 2500 * time.Millisecond}
	apply := clienttesting.ObjectReaction(a.Tracker())
	a.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if f := a.beforePatch; f != nil {
			a.beforePatch = nil
			f()
		}
		patch := action.(clienttesting.PatchAction)
		var want metav1.PartialObjectMetadata
		_ = json.Unmarshal(patch.GetPatch(), &want)
		old, err := a.Tracker().Get(nodesResource, "", patch.GetName())
		if err != nil {
			return true, nil, err
		}
		if n := old.(*corev1.Node); want.ResourceVersion != n.ResourceVersion || want.UID != n.UID {
			return true, nil, apierrors.NewConflict(nodesResource.GroupResource(), patch.GetName(), nil)
		}
		_, obj, err := apply(action)
		if err != nil {
			return true, nil, err
		}
		n := obj.(*corev1.Node)
		a.edit(n.Name, func(*corev1.Node) {})
		if f := a.afterPatch; f != nil {
			a.afterPatch = nil
			f()
		}
		return true, n, nil
	})
	a.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		return true, nil, a.evict(action.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction))
	})
	a.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return a.away.Load(), nil, errors.New("connection refused")
	})
	return a
}

var (
	nodesResource = corev1.SchemeGroupVersion.WithResource("nodes")
	podsResource  = corev1.SchemeGroupVersion.WithResource("pods")
	leaseResource = coordinationv1.SchemeGroupVersion.WithResource("leases")
)

func (a *apiServer) evict(e *policyv1.Eviction) error {
	id := e.Namespace + "/" + e.Name
	a.mu.Lock()
	a.evicted = append(a.evicted, id)
	a.mu.Unlock()
	obj, err := a.Tracker().Get(podsResource, e.Namespace, e.Name)
	if err != nil {
		return err
	}
	p := obj.(*corev1.Pod).DeepCopy()
	if *e.DeleteOptions.Preconditions.UID != p.UID {
		return apierrors.NewConflict(podsResource.GroupResource(), e.Name, nil)
	}
	if err := a.refuse[id]; err != nil && (a.until[id].IsZero() || time.Now().Before(a.until[id])) {
		return err
	}
	a.terminate(p)
	return nil
}

// terminate has a pod terminate and go after its grace period.
func (a *apiServer) terminate(p *corev1.Pod) {
	p = p.DeepCopy()
	p.DeletionTimestamp, p.Finalizers = ptr.To(metav1.Now()), []string{"test/kubelet"}
	_ = a.Tracker().Update(podsResource, p, p.Namespace)
	time.AfterFunc(a.grace, func() { _ = a.Tracker().Delete(podsResource, p.Namespace, p.Name) })
}

// asked returns every pod whose eviction was requested, each once.
func (a *apiServer) asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := slices.Sorted(slices.Values(a.evicted))
	return slices.Compact(out)
}

func (a *apiServer) node(name string) *corev1.Node {
	obj, err := a.Tracker().Get(nodesResource, "", name)
	if err != nil {
		panic(err)
	}
	return obj.(*corev1.Node).DeepCopy()
}

// edit changes a node as somebody else does.
func (a *apiServer) edit(name string, change func(*corev1.Node)) {
	n := a.node(name)
	change(n)
	version, _ := strconv.Atoi(n.ResourceVersion)
	n.ResourceVersion = strconv.Itoa(version + 1)
	if err := a.Tracker().Update(nodesResource, n, ""); err != nil {
		panic(err)
	}
}

// annotations are those of a node; nil if it is gone.
func (a *apiServer) annotations(node string) map[string]string {
	obj, err := a.Tracker().Get(nodesResource, "", node)
	if err != nil {
		return nil
	}
	return obj.(*corev1.Node).Annotations
}

func (a *apiServer) deleteNode(name string) {
	if err := a.Tracker().Delete(nodesResource, "", name); err != nil {
		panic(err)
	}
}

func beingDeleted(n *corev1.Node) {
	n.DeletionTimestamp, n.Finalizers = ptr.To(metav1.Now()), []string{"karpenter.sh/termination"}
}

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

var (
	drainN1  = Request{Action: scenarios.DrainNode, Node: "n1"}
	noticeN1 = Request{Action: scenarios.SendNotice, Node: "n1", Queue: "queue interruptions", Notice: cloud.Notice{Type: history.SpotInterruption}}
	evictDNS = Request{Action: scenarios.EvictCoreDNS}
)

func mustInspect(t *testing.T, a *apiServer, r Request) Plan {
	t.Helper()
	p, err := Inspect(t.Context(), a, r)
	if err != nil {
		t.Fatalf("inspect: %v", err)
	}
	return p
}

func mustOpen(t *testing.T, folder string) *Journal {
	t.Helper()
	j, err := OpenJournal(folder, Cluster{Kubeconfig: "/home/ann/.kube/config", Context: "staging", Server: "https://staging.example", UID: testCluster})
	if err != nil {
		t.Fatalf("open journal: %v", err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func mustPending(t *testing.T, folder string) []Entry {
	t.Helper()
	entries, err := Pending(folder)
	if err != nil {
		t.Fatalf("pending: %v", err)
	}
	return entries
}
