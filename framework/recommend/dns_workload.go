package recommend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// Workload is what has pods made: a Deployment, StatefulSet or DaemonSet.
type Workload struct {
	metav1.ObjectMeta
	Kind Kind
	// Replicas is the number of pods that there should be; 0 if a DaemonSet or an autoscaler decides it, and it is not
	// known.
	Replicas int
	Selector *metav1.LabelSelector
	Template corev1.PodTemplateSpec
	// Strategy is how a Deployment replaces its pods.
	Strategy appsv1.DeploymentStrategy
	// unset reports whether the number is that of Kubernetes, as a manifest leaves it out for an autoscaler.
	unset bool
}

// Kind is that of a workload; empty for none.
type Kind string

// The kinds.
const (
	Deployment  Kind = "Deployment"
	StatefulSet Kind = "StatefulSet"
	DaemonSet   Kind = "DaemonSet"
)

// String is the workload in words: Deployment kube-system/coredns.
func (w Workload) String() string { return string(w.Kind) + " " + w.Namespace + "/" + w.Name }

// listWorkloads lists the workloads of a namespace, or of all. Kinds that cannot be listed are left out, and
// unlisted is why.
func listWorkloads(ctx context.Context, client kubernetes.Interface, namespace string) (all []Workload, unlisted error) {
	var errs []error
	failed := func(kinds string, err error) bool {
		if err != nil && !notServed(err) {
			errs = append(errs, fmt.Errorf("list %s%s: %w", kinds, after(" in ", namespace), err))
		}
		return err != nil
	}
	apps := client.AppsV1()
	if list, err := apps.Deployments(namespace).List(ctx, metav1.ListOptions{}); !failed("Deployments", err) {
		for i := range list.Items {
			d := &list.Items[i]
			all = append(all, Workload{d.ObjectMeta, Deployment, int(ptr.Deref(d.Spec.Replicas, defaultReplicas)), d.Spec.Selector, d.Spec.Template, d.Spec.Strategy, d.Spec.Replicas == nil})
		}
	}
	if list, err := apps.StatefulSets(namespace).List(ctx, metav1.ListOptions{}); !failed("StatefulSets", err) {
		for i := range list.Items {
			d := &list.Items[i]
			all = append(all, Workload{d.ObjectMeta, StatefulSet, int(ptr.Deref(d.Spec.Replicas, defaultReplicas)), d.Spec.Selector, d.Spec.Template, appsv1.DeploymentStrategy{}, d.Spec.Replicas == nil})
		}
	}
	if list, err := apps.DaemonSets(namespace).List(ctx, metav1.ListOptions{}); !failed("DaemonSets", err) {
		for i := range list.Items {
			d := &list.Items[i]
			all = append(all, Workload{d.ObjectMeta, DaemonSet, int(d.Status.DesiredNumberScheduled), d.Spec.Selector, d.Spec.Template, appsv1.DeploymentStrategy{}, false})
		}
	}
	return all, errors.Join(errs...)
}

// container is the one of CoreDNS, by its name, its image or its argument -conf; else the first; nil if there
// is none.
func (w Workload) container() *corev1.Container {
	of, name := w.Template.Spec.Containers, "coredns"
	if i := slices.IndexFunc(of, isCoreDNS); i >= 0 && !slices.ContainsFunc(of, func(c corev1.Container) bool { return c.Name == name }) {
		name = of[i].Name
	}
	return containerOf(&w.Template.Spec, name)
}

// isCoreDNS reports whether a container shows that the pods run CoreDNS.
func (w Workload) isCoreDNS() bool { return slices.ContainsFunc(w.Template.Spec.Containers, isCoreDNS) }

func isCoreDNS(c corev1.Container) bool {
	return strings.Contains(c.Image, "coredns") || c.Name == "coredns" || corefilePath(c) != ""
}

// errNoDNS reports that a cluster has no pods that answer its DNS.
var errNoDNS = errors.New("no Deployment, StatefulSet or DaemonSet")

// openShiftNamespace is where OpenShift's operator puts the cluster's DNS.
const openShiftNamespace = "openshift-dns"

// findWorkload finds the workload of that name; without one, the one behind the Service of the cluster's DNS.
// Others are more behind it, and all are those of its namespace. Error: errNoDNS.
func findWorkload(ctx context.Context, client kubernetes.Interface, namespace, name string) (w Workload, others, all []Workload, err error) {
	all, unlisted := listWorkloads(ctx, client, namespace)
	if _, fatal := unread(unlisted); fatal != nil {
		return w, nil, nil, unlisted
	}
	var found []Workload
	if name != "" {
		found = slices.DeleteFunc(slices.Clone(all), func(w Workload) bool { return w.Name != name })
	} else if found, err = selected(ctx, client, namespace, all); err != nil {
		return w, nil, nil, err
	}
	if len(found) == 0 {
		if name == "" && namespace != openShiftNamespace {
			if w, others, all, err := findWorkload(ctx, client, openShiftNamespace, ""); err == nil {
				return w, others, all, nil
			}
		}
		if len(all) == 0 && unlisted != nil {
			return w, nil, nil, unlisted
		}
		none := fmt.Errorf("%w %sin namespace %s answers the cluster's DNS; if CoreDNS has another name, use --namespace and --deployment", errNoDNS, named(name), namespace)
		return w, nil, nil, errors.Join(none, unlisted)
	}
	slices.SortStableFunc(found, func(a, b Workload) int {
		rank := func(w Workload) int {
			if w.isCoreDNS() {
				return w.Replicas + 1
			}
			return min(0, w.Replicas-1) // one that is scaled to 0 comes last
		}
		return cmp.Compare(rank(b), rank(a))
	})
	return found[0], found[1:], all, nil
}

func named(name string) string {
	if name == "" {
		return ""
	}
	return "named " + name + " "
}

// nameLabel is CoreDNS on what its chart installs as the DNS of a cluster.
const nameLabel = "kubernetes.io/name"

// selected are the workloads behind the Service of the cluster's DNS: by its selector, or by its
// EndpointSlices if it has none. Without a Service, or one that cannot be read, they are those that look like CoreDNS.
func selected(ctx context.Context, client kubernetes.Interface, namespace string, all []Workload) ([]Workload, error) {
	services, err := client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if _, fatal := unread(err); fatal != nil {
		return nil, fmt.Errorf("list the Services of %s: %w", namespace, err)
	}
	if err == nil {
		for _, is := range []func(corev1.Service) bool{
			func(s corev1.Service) bool { return s.Name == "kube-dns" || s.Name == "dns-default" },
			func(s corev1.Service) bool { return s.Labels["k8s-app"] == "kube-dns" },
			func(s corev1.Service) bool { return s.Labels[nameLabel] == "CoreDNS" },
		} {
			for _, s := range services.Items {
				if !is(s) {
					continue
				}
				found, err := behind(ctx, client, s, all)
				if err != nil || len(found) > 0 {
					return found, err
				}
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(w Workload) bool {
		return w.Name != "coredns" && w.Name != "dns-default" && w.Labels["k8s-app"] != "kube-dns" && w.Template.Labels["k8s-app"] != "kube-dns" && w.Labels[nameLabel] != "CoreDNS"
	}), nil
}

// behind are the workloads whose pods a Service sends to.
func behind(ctx context.Context, client kubernetes.Interface, s corev1.Service, all []Workload) ([]Workload, error) {
	if len(s.Spec.Selector) > 0 {
		selector := labels.SelectorFromSet(s.Spec.Selector)
		return slices.DeleteFunc(slices.Clone(all), func(w Workload) bool { return !selector.Matches(labels.Set(w.Template.Labels)) }), nil
	}
	list, err := client.DiscoveryV1().EndpointSlices(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + s.Name})
	if err != nil {
		_, fatal := unread(err)
		return nil, fatal
	}
	pods, err := client.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		_, fatal := unread(err)
		return nil, fatal
	}
	var to []string // addresses
	for i := range list.Items {
		for _, e := range list.Items[i].Endpoints {
			to = append(to, e.Addresses...)
		}
	}
	var found []Workload
	for _, w := range all {
		selector, err := metav1.LabelSelectorAsSelector(w.Selector)
		if err == nil && slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
			return slices.Contains(to, p.Status.PodIP) && selector.Matches(labels.Set(p.Labels))
		}) {
			found = append(found, w)
		}
	}
	if len(found) == 0 && len(to) > 0 {
		return nil, fmt.Errorf("%w has the addresses of Service %s/%s, which has no selector: %s", errNoDNS, s.Namespace, s.Name, strings.Join(to, ", "))
	}
	return found, nil
}

// notServed reports whether the cluster does not serve a kind: it has no objects of it.
func notServed(err error) bool { return apierrors.IsNotFound(err) || runtime.IsNotRegisteredError(err) }

// unread is why something could not be read. Fatal is set if that is no answer of the cluster: it is not
// reached, or the time is over.
func unread(err error) (why string, fatal error) {
	var unreached *url.Error
	switch {
	case err == nil:
		return "", nil
	case errors.As(err, &unreached), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "", err
	}
	return strings.ReplaceAll(err.Error(), "\n", "; "), nil
}
