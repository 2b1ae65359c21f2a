// Package observe measures DNS in a cluster that is not spotdrill's own: probers in the
// cluster, the record outside, and whatever happens in between. It leaves the same history
// as a drill, and nothing in the cluster. It judges nothing.
package observe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/e2e-framework/klient"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/guard"
)

// Cluster is a client of a cluster that is not spotdrill's own.
type Cluster struct {
	Clientset kubernetes.Interface
	klient    klient.Client
}

// Connect makes the client, and waits up to answerTimeout for any answer of the API server. It does not
// limit the time of later requests: the records of the probers are streams.
func Connect(ctx context.Context, config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.Timeout, config.QPS, config.Burst = 0, 50, 100
	config.WarningHandler = rest.NoWarnings{}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reach the cluster at %s: %w", config.Host, err)
	}
	first, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err = clientset.Discovery().RESTClient().Get().AbsPath("/version").Do(first).Error()
	if answer := apierrors.APIStatus(nil); err != nil && !errors.As(err, &answer) {
		return nil, fmt.Errorf("reach the cluster at %s: %w", config.Host, err)
	}
	k, err := klient.New(config)
	if err != nil {
		return nil, fmt.Errorf("reach the cluster at %s: %w", config.Host, err)
	}
	return &Cluster{Clientset: clientset, klient: k}, nil
}

// May reports whether the client has a right in a namespace; empty for all namespaces.
func (c *Cluster) May(ctx context.Context, verb, group, resource, subresource, namespace string) bool {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Subresource: subresource, Namespace: namespace},
	}}
	answer, err := c.Clientset.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	return err == nil && answer.Status.Allowed
}

// nodes are those that a selector selects and on which a pod can run.
func (c *Cluster) nodes(ctx context.Context, selector string) ([]corev1.Node, error) {
	list, err := c.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(n corev1.Node) bool {
		os, known := n.Labels[corev1.LabelOSStable]
		return known && os != "linux" || !ready(n)
	}), nil
}

func ready(n corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// dnsPods are the addresses of the CoreDNS pods that are ready and stay, with the port at which they answer.
func (c *Cluster) dnsPods(ctx context.Context, service types.NamespacedName) ([]netip.AddrPort, error) {
	list, err := c.Clientset.DiscoveryV1().EndpointSlices(service.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + service.Name,
	})
	if err != nil {
		return nil, fmt.Errorf("list the endpoints of %s: %w", service, err)
	}
	var out []netip.AddrPort
	for _, s := range list.Items {
		if s.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for _, e := range s.Endpoints {
			if !ptr.Deref(e.Conditions.Ready, true) || ptr.Deref(e.Conditions.Terminating, false) {
				continue
			}
			for _, address := range e.Addresses {
				ip, err := netip.ParseAddr(address)
				if err != nil {
					return nil, fmt.Errorf("read the endpoints of %s: %w", service, err)
				}
				out = append(out, netip.AddrPortFrom(ip, queryPort(s.Ports)))
			}
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out), nil
}

// queryPort is the port of the pods for queries by UDP: the one named dns or, if none is, the first for UDP.
func queryPort(ports []discoveryv1.EndpointPort) uint16 {
	var first uint16
	for _, p := range ports {
		if ptr.Deref(p.Protocol, corev1.ProtocolTCP) != corev1.ProtocolUDP || p.Port == nil {
			continue
		}
		if ptr.Deref(p.Name, "") == "dns" {
			return uint16(*p.Port)
		}
		first = cmp.Or(first, uint16(*p.Port))
	}
	return cmp.Or(first, coredns.DNSPort)
}

// application finds the Service of the application that is requested, whose pods are watched: by its
// address. outside is why it has none. Both are empty if the client may not read what it takes: Services,
// EndpointSlices, and the workloads of its namespace.
func (c *Cluster) application(ctx context.Context, o Options) (service *corev1.Service, outside string, err error) {
	server, _, err := o.application()
	if err != nil || !server.IsValid() {
		return nil, "", err
	}
	watches := func(group, resource, namespace string) bool {
		return c.May(ctx, "list", group, resource, "", namespace) && c.May(ctx, "watch", group, resource, "", namespace)
	}
	all := metav1.NamespaceAll
	if !c.May(ctx, "list", "", "services", "", all) || !watches("discovery.k8s.io", "endpointslices", all) {
		return nil, "", nil
	}
	list, err := c.Clientset.CoreV1().Services(all).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("list the Services, to find that of --application: %w", err)
	}
	for _, s := range list.Items {
		addresses := slices.Concat(s.Spec.ClusterIPs, s.Spec.ExternalIPs)
		for _, ingress := range s.Status.LoadBalancer.Ingress {
			addresses = append(addresses, ingress.IP)
		}
		if slices.Contains(addresses, server.Addr().String()) {
			for _, workloads := range []string{"deployments", "daemonsets", "statefulsets"} {
				if !watches("apps", workloads, s.Namespace) {
					return nil, "", nil
				}
			}
			return &s, "", nil
		}
	}
	return nil, "no Service of the cluster has this address: its pods are not watched", nil
}

// request is a request to one of our pods, through the API server, with the token of the run.
func (c *Cluster) request(verb, namespace, pod, port, path, token string) *rest.Request {
	return c.Clientset.CoreV1().RESTClient().Verb(verb).
		Namespace(namespace).Resource("pods").Name(pod+":"+port).SubResource("proxy").Suffix(path).
		SetHeader(guard.Header, token)
}

// proberPort is where the probers and the keeper listen.
const proberPort = "8080"

// answerTimeout bounds a short request to one of our pods.
const answerTimeout = 10 * time.Second

// get is a short request's answer.
func (c *Cluster) get(ctx context.Context, namespace, pod, port, path, token string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	body, err := c.request(http.MethodGet, namespace, pod, port, path, token).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %s of pod %s: %w", path, pod, withAnswer(err, body))
	}
	return body, nil
}

// withAnswer adds what a pod answered to an error that only has the status.
func withAnswer(err error, body []byte) error {
	if text := strings.TrimSpace(string(body)); text != "" && len(text) < 300 && !strings.HasPrefix(text, "{") {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// account is the number of an AWS account, as in the name of a context of EKS or in an image's reference.
var account = regexp.MustCompile(`\b\d{12}\b`)

// withoutAccounts hides the numbers of accounts: reports are published.
func withoutAccounts(environment map[string]string) {
	for name, value := range environment {
		environment[name] = account.ReplaceAllString(value, "…")
	}
}

// Environment is what figures of the cluster depend on, as far as the client may read it.
func (c *Cluster) Environment(ctx context.Context) map[string]string {
	env := map[string]string{}
	if v, err := c.Clientset.Discovery().ServerVersion(); err == nil {
		env["kubernetes"] = v.GitVersion
	}
	var nodes []corev1.Node
	if list, err := c.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err == nil {
		nodes = list.Items
	}
	var architectures, kernels, runtimes []string
	for _, n := range nodes {
		architectures = append(architectures, n.Status.NodeInfo.Architecture)
		kernels = append(kernels, n.Status.NodeInfo.KernelVersion)
		runtimes = append(runtimes, n.Status.NodeInfo.ContainerRuntimeVersion)
	}
	env["nodes"] = fmt.Sprint(len(nodes))
	env["architectures"], env["kernels"], env["container-runtimes"] = distinct(architectures), distinct(kernels), distinct(runtimes)
	env["kube-proxy"] = c.serviceProxy(ctx, nodes)
	return env
}

func distinct(values []string) string {
	slices.Sort(values)
	return strings.Join(slices.Compact(values), ", ")
}

// serviceProxy is what translates the addresses of Services on the nodes: kube-proxy's mode, or
// what replaces it.
func (c *Cluster) serviceProxy(ctx context.Context, nodes []corev1.Node) string {
	maps := c.Clientset.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	cilium := slices.ContainsFunc(nodes, ciliumIsUp)
	if cilium {
		if cm, err := maps.Get(ctx, "cilium-config", metav1.GetOptions{}); err == nil && replaces(cm.Data["kube-proxy-replacement"]) {
			return "replaced by Cilium"
		}
	}
	cm, err := maps.Get(ctx, "kube-proxy", metav1.GetOptions{})
	switch {
	case err == nil && cilium:
		return proxyMode(cm.Data) + ", next to Cilium"
	case err == nil:
		return proxyMode(cm.Data)
	case apierrors.IsNotFound(err) && cilium:
		return "replaced by Cilium"
	case apierrors.IsNotFound(err):
		return "unknown: there is no ConfigMap kube-system/kube-proxy"
	case cilium:
		return "unknown: Cilium is installed, but its configuration cannot be read (no permission)"
	}
	return "unknown: no right to read the ConfigMap kube-system/kube-proxy"
}

// ciliumIsUp reports whether Cilium's agent has set the node's network condition.
func ciliumIsUp(n corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeNetworkUnavailable && c.Reason == "CiliumIsUp"
	})
}

// replaces reports whether a value of kube-proxy-replacement turns it on; "strict" is that of
// Cilium before 1.14.
func replaces(value string) bool { return value == "true" || value == "strict" }

// proxyMode is the mode in kube-proxy's configuration. Left out, it is iptables on Linux.
func proxyMode(config map[string]string) string {
	for _, text := range config {
		for line := range strings.Lines(text) {
			if mode, ok := strings.CutPrefix(strings.TrimSpace(line), "mode:"); ok {
				if mode = strings.Trim(strings.TrimSpace(mode), `"'`); mode != "" {
					return mode
				}
			}
		}
	}
	return "iptables"
}

// affinity is a label selector as the match expressions of a node affinity, in JSON.
func affinity(selector string) (string, error) {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return "", fmt.Errorf("read the selector of nodes: %w", err)
	}
	operators := map[selection.Operator]corev1.NodeSelectorOperator{
		selection.Equals: corev1.NodeSelectorOpIn, selection.DoubleEquals: corev1.NodeSelectorOpIn, selection.In: corev1.NodeSelectorOpIn,
		selection.NotEquals: corev1.NodeSelectorOpNotIn, selection.NotIn: corev1.NodeSelectorOpNotIn,
		selection.Exists: corev1.NodeSelectorOpExists, selection.DoesNotExist: corev1.NodeSelectorOpDoesNotExist,
		selection.GreaterThan: corev1.NodeSelectorOpGt, selection.LessThan: corev1.NodeSelectorOpLt,
	}
	expressions := []corev1.NodeSelectorRequirement{{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"linux"}}}
	requirements, _ := parsed.Requirements()
	for _, r := range requirements {
		expressions = append(expressions, corev1.NodeSelectorRequirement{Key: r.Key(), Operator: operators[r.Operator()], Values: r.Values().List()})
	}
	text, err := json.Marshal(expressions)
	return string(text), err
}
