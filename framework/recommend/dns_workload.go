package recommend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// Workload is the Deployment or DaemonSet whose pods answer the cluster's DNS.
type Workload struct {
	metav1.ObjectMeta
	Kind Kind
	// Replicas is the number of pods that there should be.
	Replicas int
	Selector *metav1.LabelSelector
	Template corev1.PodTemplateSpec
}

// Kind is that of a workload; empty for none.
type Kind string

// The kinds.
const (
	Deployment Kind = "Deployment"
	DaemonSet  Kind = "DaemonSet"
)

// String is the workload in words: Deployment kube-system/coredns.
func (w Workload) String() string { return string(w.Kind) + " " + w.Namespace + "/" + w.Name }

func ofDeployment(d *appsv1.Deployment) Workload {
	return Workload{d.ObjectMeta, Deployment, int(ptr.Deref(d.Spec.Replicas, defaultReplicas)), d.Spec.Selector, d.Spec.Template}
}

func ofDaemonSet(d *appsv1.DaemonSet) Workload {
	return Workload{d.ObjectMeta, DaemonSet, int(d.Status.DesiredNumberScheduled), d.Spec.Selector, d.Spec.Template}
}

// container is the one of CoreDNS; nil if there is none.
func (w Workload) container() *corev1.Container { return containerOf(&w.Template.Spec, "coredns") }

// isCoreDNS reports whether an image or a mounted Corefile shows that the pods run CoreDNS.
func (w Workload) isCoreDNS() bool {
	return slices.ContainsFunc(w.Template.Spec.Containers, func(c corev1.Container) bool {
		return strings.Contains(c.Image, "coredns") || c.Name == "coredns" || corefilePath(c) != ""
	})
}

// errNoDNS reports that a cluster has no pods that answer its DNS.
var errNoDNS = errors.New("no Deployment or DaemonSet")

// openShiftNamespace is where OpenShift's operator puts the cluster's DNS.
const openShiftNamespace = "openshift-dns"

// findWorkload finds the workload of that name; without one, the one that the Service of the cluster's
// DNS selects. Others are more that it selects. Error: errNoDNS.
func findWorkload(ctx context.Context, client kubernetes.Interface, namespace, name string) (w Workload, others []Workload, err error) {
	all, err := workloadsOf(ctx, client, namespace)
	if err != nil {
		return w, nil, err
	}
	var found []Workload
	if name != "" {
		found = slices.DeleteFunc(all, func(w Workload) bool { return w.Name != name })
	} else if found, err = selected(ctx, client, namespace, all); err != nil {
		return w, nil, err
	}
	if len(found) == 0 {
		if name == "" && namespace != openShiftNamespace {
			if w, others, err := findWorkload(ctx, client, openShiftNamespace, ""); err == nil {
				return w, others, nil
			}
		}
		return w, nil, fmt.Errorf("%w %sin namespace %s answers the cluster's DNS; if CoreDNS has another name, use --namespace and --deployment", errNoDNS, named(name), namespace)
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
	return found[0], found[1:], nil
}

func named(name string) string {
	if name == "" {
		return ""
	}
	return "named " + name + " "
}

func workloadsOf(ctx context.Context, client kubernetes.Interface, namespace string) (out []Workload, err error) {
	deployments, err := client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the Deployments of %s: %w", namespace, err)
	}
	for i := range deployments.Items {
		out = append(out, ofDeployment(&deployments.Items[i]))
	}
	sets, err := client.AppsV1().DaemonSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("list the DaemonSets of %s: %w", namespace, err)
	}
	if err == nil {
		for i := range sets.Items {
			out = append(out, ofDaemonSet(&sets.Items[i]))
		}
	}
	return out, nil
}

// selected are the workloads that the Service of the cluster's DNS selects; without a Service, those
// that look like CoreDNS.
func selected(ctx context.Context, client kubernetes.Interface, namespace string, all []Workload) ([]Workload, error) {
	services, err := client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("list the Services of %s: %w", namespace, err)
	}
	if err == nil {
		for _, is := range []func(corev1.Service) bool{
			func(s corev1.Service) bool { return s.Name == "kube-dns" || s.Name == "dns-default" },
			func(s corev1.Service) bool { return s.Labels["k8s-app"] == "kube-dns" },
		} {
			for _, s := range services.Items {
				if !is(s) || len(s.Spec.Selector) == 0 {
					continue
				}
				selector := labels.SelectorFromSet(s.Spec.Selector)
				if found := slices.DeleteFunc(slices.Clone(all), func(w Workload) bool { return !selector.Matches(labels.Set(w.Template.Labels)) }); len(found) > 0 {
					return found, nil
				}
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(w Workload) bool {
		return w.Name != "coredns" && w.Labels["k8s-app"] != "kube-dns" && w.Template.Labels["k8s-app"] != "kube-dns"
	}), nil
}
