package observe

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/spotdrill/spotdrill/scenarios"
)

func of(objects ...runtime.Object) *Cluster {
	return &Cluster{Clientset: fake.NewClientset(objects...)}
}

func node(name string, edit func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Status.NodeInfo.Architecture = "amd64"
	if edit != nil {
		edit(n)
	}
	return n
}

func TestProbersRunOnReadyNodesWithLinux(t *testing.T) {
	t.Parallel()
	c := of(node("a", nil),
		node("windows", func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "windows" }),
		node("down", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }),
		node("unlabelled", func(n *corev1.Node) { n.Labels = nil }))
	found, err := c.nodes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range found {
		names = append(names, n.Name)
	}
	if want := []string{"a", "unlabelled"}; !slices.Equal(names, want) {
		t.Errorf("nodes %q, want %q", names, want)
	}
}

func TestWhatReplacesKubeProxyIsNamed(t *testing.T) {
	t.Parallel()
	kubeProxy := func(config string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy"}, Data: map[string]string{"config.conf": config}}
	}
	cilium := func(replaces string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cilium-config"}, Data: map[string]string{"kube-proxy-replacement": replaces}}
	}
	withCilium := node("a", func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: "CiliumIsUp"})
	})
	for name, c := range map[string]struct {
		objects []runtime.Object
		want    string
	}{
		"nftables":                    {[]runtime.Object{node("a", nil), kubeProxy("metricsBindAddress: \"\"\nmode: nftables\nnftables:\n  minSyncPeriod: 0s\n")}, "nftables"},
		"ipvs, quoted":                {[]runtime.Object{node("a", nil), kubeProxy("mode: \"ipvs\"\n")}, "ipvs"},
		"the default":                 {[]runtime.Object{node("a", nil), kubeProxy("mode: \"\"\n")}, "iptables"},
		"Cilium in its place":         {[]runtime.Object{withCilium, cilium("true")}, "replaced by Cilium"},
		"Cilium, before 1.14":         {[]runtime.Object{withCilium, cilium("strict"), kubeProxy("mode: iptables")}, "replaced by Cilium"},
		"Cilium next to kube-proxy":   {[]runtime.Object{withCilium, cilium("false"), kubeProxy("mode: iptables")}, "iptables, next to Cilium"},
		"Cilium, and no kube-proxy":   {[]runtime.Object{withCilium}, "replaced by Cilium"},
		"neither can be found":        {[]runtime.Object{node("a", nil)}, "unknown: there is no ConfigMap kube-system/kube-proxy"},
		"a mode within another field": {[]runtime.Object{node("a", nil), kubeProxy("detectLocalMode: \"NodeCIDR\"\nmode: iptables\n")}, "iptables"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := of(c.objects...).Environment(t.Context())["kube-proxy"]; got != c.want {
				t.Errorf("kube-proxy %q, want %q", got, c.want)
			}
		})
	}
	mixed := of(node("a", nil), node("b", func(n *corev1.Node) { n.Status.NodeInfo.Architecture = "arm64" }))
	if env := mixed.Environment(t.Context()); env["architectures"] != "amd64, arm64" || env["nodes"] != "2" {
		t.Errorf("environment %v", env)
	}
}

func TestTheReadyPodsOfDNSAreQueriedDirectly(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns-1", Labels: map[string]string{discoveryv1.LabelServiceName: "kube-dns"}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.2"}, Conditions: discoveryv1.EndpointConditions{Ready: &yes}},
			{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{}}, // nil means ready
			{Addresses: []string{"10.0.0.3"}, Conditions: discoveryv1.EndpointConditions{Ready: &no}},
			{Addresses: []string{"10.0.0.4"}, Conditions: discoveryv1.EndpointConditions{Ready: &yes, Terminating: &yes}},
		},
	}
	other := slice.DeepCopy()
	other.Name, other.Labels = "metrics", map[string]string{discoveryv1.LabelServiceName: "metrics-server"}
	port := func(name string, protocol corev1.Protocol, n int32) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: &name, Protocol: &protocol, Port: &n}
	}
	for name, c := range map[string]struct {
		ports []discoveryv1.EndpointPort
		want  string
	}{
		"no ports":      {nil, "53"},
		"kubeadm":       {[]discoveryv1.EndpointPort{port("metrics", corev1.ProtocolTCP, 9153), port("dns-tcp", corev1.ProtocolTCP, 53), port("dns", corev1.ProtocolUDP, 53)}, "53"},
		"OpenShift":     {[]discoveryv1.EndpointPort{port("dns-tcp", corev1.ProtocolTCP, 5353), port("metrics", corev1.ProtocolTCP, 9154), port("dns", corev1.ProtocolUDP, 5353)}, "5353"},
		"Helm chart":    {[]discoveryv1.EndpointPort{port("udp-53", corev1.ProtocolUDP, 1053), port("tcp-53", corev1.ProtocolTCP, 1053)}, "1053"},
		"another first": {[]discoveryv1.EndpointPort{port("quic", corev1.ProtocolUDP, 853), port("dns", corev1.ProtocolUDP, 8053)}, "8053"},
	} {
		one := slice.DeepCopy()
		one.Ports = c.ports
		found, err := of(one, other).dnsPods(t.Context(), types.NamespacedName{Namespace: "kube-system", Name: "kube-dns"})
		got := fmt.Sprint(found)
		if want := "[10.0.0.1:" + c.want + " 10.0.0.2:" + c.want + "]"; err != nil || got != want {
			t.Errorf("%s: %s, error %v, want %s", name, got, err, want)
		}
	}
}

func TestASelectorOfNodesBecomesAnAffinity(t *testing.T) {
	t.Parallel()
	const linux = `{"key":"kubernetes.io/os","operator":"In","values":["linux"]}`
	for selector, want := range map[string]string{
		"":              "[" + linux + "]",
		"a=b":           "[" + linux + `,{"key":"a","operator":"In","values":["b"]}]`,
		"a in (b,c),!d": "[" + linux + `,{"key":"a","operator":"In","values":["b","c"]},{"key":"d","operator":"DoesNotExist"}]`,
		"a!=b,c":        "[" + linux + `,{"key":"a","operator":"NotIn","values":["b"]},{"key":"c","operator":"Exists"}]`,
		"a>3":           "[" + linux + `,{"key":"a","operator":"Gt","values":["3"]}]`,
	} {
		if got, err := affinity(selector); err != nil || got != want {
			t.Errorf("%q: %s, error %v, want %s", selector, got, err, want)
		}
	}
	if _, err := affinity("a in b"); err == nil {
		t.Error("a selector that cannot be read gave no error")
	}
}

func TestTheRightsAreThoseOfOneNamespaceAndToRead(t *testing.T) {
	t.Parallel()
	dns := types.NamespacedName{Namespace: "kube-system", Name: "kube-dns"}
	var observing, drilling bytes.Buffer
	if err := (Rights{Namespace: "ours", DNS: dns}).Write(&observing); err != nil {
		t.Fatal(err)
	}
	if err := (Rights{Namespace: "ours", DNS: dns, Permissions: scenarios.Permissions()}).Write(&drilling); err != nil {
		t.Fatal(err)
	}
	for _, never := range []string{"*", "pods/eviction", "patch", "escalate", "pods/exec", "privileged"} {
		if strings.Contains(observing.String(), never) {
			t.Errorf("to observe, %q is among the rights", never)
		}
	}
	for _, needed := range []string{"pods/eviction", "patch", "poddisruptionbudgets", "resources: [leases], resourceNames: [spotdrill-live]"} {
		if !strings.Contains(drilling.String(), needed) {
			t.Errorf("to drill, %q is not among the rights", needed)
		}
	}
	for _, unused := range []string{"resources: [daemonsets], verbs: [get]", "resources: [pods], verbs: [get, list, watch]}\n  - {apiGroups: [\"\"], resources: [namespaces]"} {
		if strings.Contains(drilling.String(), unused) {
			t.Errorf("to drill, %q is among the rights, and nothing uses it", unused)
		}
	}
	var application bytes.Buffer
	if err := (Rights{Namespace: "ours", DNS: dns, Application: true}).Write(&application); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(observing.String(), "[services]") || !strings.Contains(application.String(), "[services]") {
		t.Error("the right to list Services is not only among those with an application")
	}
	if !strings.Contains(observing.String(), "pod-security.kubernetes.io/enforce: restricted") {
		t.Error("the namespace does not require the level restricted")
	}
}

func TestCleanupLeavesTheObservationOfALiveClientAlone(t *testing.T) {
	t.Parallel()
	job := func(name string, active int32, age time.Duration) *batchv1.Job {
		return &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ours", Name: name, CreationTimestamp: metav1.NewTime(time.Now().Add(-age)),
				Labels: map[string]string{"spotdrill.dev/part-of": "observe"},
			},
			Status: batchv1.JobStatus{Active: active},
		}
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ours", Labels: map[string]string{madeByUs: "observe"}}}
	foreign := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: "theirs"}}
	c := of(namespace, foreign, job("observe-dead", 0, time.Hour), job("observe-alive", 1, time.Hour))
	removed, left, err := c.Cleanup(t.Context(), "ours")
	if err != nil || len(removed) != 1 || !strings.Contains(removed[0], "observe-dead") || len(left) != 1 || !strings.Contains(left[0], "observe-alive") {
		t.Fatalf("removed %q, left %q, error %v", removed, left, err)
	}
	if _, err := c.Clientset.BatchV1().Jobs("ours").Get(t.Context(), "theirs", metav1.GetOptions{}); err != nil {
		t.Errorf("a Job of somebody else is gone: %v", err)
	}
	if _, err := c.Clientset.CoreV1().Namespaces().Get(t.Context(), "ours", metav1.GetOptions{}); err != nil {
		t.Errorf("the namespace of a live observation is gone: %v", err)
	}
	c = of(namespace, job("observe-dead", 0, time.Hour))
	if removed, _, err := c.Cleanup(t.Context(), "ours"); err != nil || len(removed) != 2 {
		t.Errorf("removed %q, error %v: want the Job and the namespace that it was made for", removed, err)
	}
	notOurs := namespace.DeepCopy()
	notOurs.Labels = nil
	c = of(notOurs)
	if removed, left, err := c.Cleanup(t.Context(), "ours"); err != nil || len(removed)+len(left) != 0 {
		t.Errorf("removed %q, left %q, error %v: nothing there is ours", removed, left, err)
	}
}

func TestThePodsOfTheApplicationAreFoundByItsAddress(t *testing.T) {
	t.Parallel()
	service := func(name string, status corev1.ServiceStatus, addresses ...string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{ClusterIPs: addresses}, Status: status}
	}
	balanced := corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "198.51.100.7"}}}}
	check := func(name, application string, allowed func(resource string) bool, want string, isOutside bool) {
		t.Helper()
		clientset := fake.NewClientset(service("web", corev1.ServiceStatus{}, "10.96.12.7", "fd00::7"), service("front", balanced, "10.96.1.1"))
		clientset.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
			review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
			review.Status.Allowed = allowed(review.Spec.ResourceAttributes.Resource)
			return true, review, nil
		})
		got, outside, err := (&Cluster{Clientset: clientset}).application(t.Context(), Options{Application: application})
		if err != nil || got != nil && got.Name != want || got == nil && want != "" || (outside != "") != isOutside {
			t.Errorf("%s: %v, %q, error %v", name, got, outside, err)
		}
	}
	for name, c := range map[string]struct {
		application string
		allowed     bool
		want        string
		outside     bool
	}{
		"none":                          {"", true, "", false},
		"a Service's own address":       {"10.96.12.7:80/healthz", true, "web", false},
		"the second of two families":    {"[fd00::7]:80/", true, "web", false},
		"a load balancer's":             {"198.51.100.7:443/", true, "front", false},
		"one outside of the cluster":    {"192.0.2.1:80/", true, "", true},
		"no right to read the Services": {"10.96.12.7:80/", false, "", false},
	} {
		check(name, c.application, func(string) bool { return c.allowed }, c.want, c.outside)
	}
	for _, lacks := range []string{"services", "endpointslices", "deployments", "daemonsets", "statefulsets"} {
		check("no right to read "+lacks, "10.96.12.7:80/", func(resource string) bool { return resource != lacks }, "", false)
	}
}

func TestNumbersOfAccountsAreNotReported(t *testing.T) {
	environment := map[string]string{
		"context":  "arn:aws:eks:eu-west-1:111122223333:cluster/prod",
		"coredns":  "111122223333.dkr.ecr.eu-west-1.example.com/coredns:v1.14.6",
		"kernel":   "6.12.0-20260101-generic",
		"platform": "linux/amd64",
	}
	want := map[string]string{
		"context":  "arn:aws:eks:eu-west-1:…:cluster/prod",
		"coredns":  "….dkr.ecr.eu-west-1.example.com/coredns:v1.14.6",
		"kernel":   "6.12.0-20260101-generic",
		"platform": "linux/amd64",
	}
	withoutAccounts(environment)
	if !maps.Equal(environment, want) {
		t.Errorf("%v", environment)
	}
}
