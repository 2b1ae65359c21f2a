package consent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/util/podutils"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/history"
)

// fewestDNS is how many CoreDNS pods must be ready before a drill: one that is moved, and one
// that answers meanwhile.
const fewestDNS = 2

// The label of the pods by which spotdrill observes the cluster. They belong to the drill, and
// are neither moved nor waited for.
const (
	partOfLabel   = "spotdrill.dev/part-of"
	partOfObserve = "observe"
)

// readyDNS returns the pods that the EndpointSlices of the Service have as ready, sorted by name.
func readyDNS(ctx context.Context, client kubernetes.Interface, namespace, service string) ([]corev1.Pod, error) {
	list, err := client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		return nil, fmt.Errorf("list the EndpointSlices of Service %s/%s: %w", namespace, service, err)
	}
	ready := map[string]bool{}
	for _, s := range list.Items {
		for _, e := range s.Endpoints {
			c := e.Conditions
			serves := ptr.Deref(c.Ready, true) && ptr.Deref(c.Serving, true) && !ptr.Deref(c.Terminating, false)
			if serves && e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
				ready[e.TargetRef.Name] = true
			}
		}
	}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the pods of Service %s/%s: %w", namespace, service, err)
	}
	return byName(slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !ready[p.Name] || p.DeletionTimestamp != nil })), nil
}

// podsOn returns every pod of a node, sorted by name.
func podsOn(ctx context.Context, client kubernetes.Interface, node string) ([]corev1.Pod, error) {
	list, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()})
	if err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", node, err)
	}
	return byName(slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.Spec.NodeName != node })), nil
}

// moved reports whether a drain moves the pod to another node. It is asked of a cluster that is not ours, whose
// handler is unknown: a pod that tolerates the taint of some handler counts as moved, unlike in the checks.
func moved(p corev1.Pod) bool {
	_, static := p.Annotations[corev1.MirrorPodAnnotationKey]
	owner := metav1.GetControllerOf(&p)
	daemon := owner != nil && owner.Kind == "DaemonSet" && strings.HasPrefix(owner.APIVersion, "apps/")
	return !static && !daemon && !finished(p) && p.DeletionTimestamp == nil && p.Labels[partOfLabel] != partOfObserve
}

func finished(p corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func hasEmptyDir(p corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil })
}

func bare(p corev1.Pod) bool { return metav1.GetControllerOf(&p) == nil }

func (i *inspection) refuseEmptyDir() {
	if of := only(i.pods, hasEmptyDir); len(of) > 0 && !i.plan.Request.DeleteEmptyDir {
		i.refuse("%s would lose the data in emptyDir volumes: %s; allow it, or choose another node", history.Count(len(of), "pod"), few(namesOf(of)))
	}
}

func (i *inspection) refuseBare() {
	if of := only(i.pods, bare); len(of) > 0 && !i.plan.Request.Force {
		i.refuse("nothing would create %s again, which has no controller: %s; allow it with force, or choose another node", history.Count(len(of), "pod"), few(namesOf(of)))
	}
}

func only(pods []corev1.Pod, keep func(corev1.Pod) bool) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return !keep(p) })
}

func name(p corev1.Pod) string { return p.Namespace + "/" + p.Name }

func namesOf(pods []corev1.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, name(p))
	}
	return out
}

func nodesOf(pods []corev1.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Spec.NodeName)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func byName(pods []corev1.Pod) []corev1.Pod {
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(name(a), name(b)) })
	return pods
}

// refuseByBudgets refuses if the Eviction API would refuse one of the pods now.
func (i *inspection) refuseByBudgets(ctx context.Context, client kubernetes.Interface, namespace string) error {
	list, err := client.PolicyV1().PodDisruptionBudgets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	blocked := make([][]string, len(list.Items)) // names of pods, by budget
	for _, p := range i.pods {
		if p.Status.Phase == corev1.PodPending {
			continue // the Eviction API deletes such a pod without regard to budgets
		}
		var covering []int
		for at, b := range list.Items {
			covers, err := selects(b, p)
			if err != nil {
				return err
			}
			if covers {
				covering = append(covering, at)
			}
		}
		switch {
		case len(covering) > 1:
			var names []string
			for _, at := range covering {
				names = append(names, list.Items[at].Name)
			}
			i.refuse("pod %s has more than one PodDisruptionBudget (%s), and the Eviction API refuses to evict such a pod: keep one of them", name(p), few(names))
		case len(covering) == 1 && !allows(list.Items[covering[0]], p):
			blocked[covering[0]] = append(blocked[covering[0]], name(p))
		}
	}
	for at, pods := range blocked {
		if b := list.Items[at]; len(pods) > 0 {
			i.refuse("PodDisruptionBudget %s/%s allows no eviction now (%s healthy, it requires %d), and it covers %s: wait until its pods are healthy, or change it", b.Namespace, b.Name, history.Count(b.Status.CurrentHealthy, "pod"), b.Status.DesiredHealthy, few(pods))
		}
	}
	return nil
}

func selects(b policyv1.PodDisruptionBudget, p corev1.Pod) (bool, error) {
	if b.Namespace != p.Namespace {
		return false, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return false, fmt.Errorf("read the selector of PodDisruptionBudget %s/%s: %w", b.Namespace, b.Name, err)
	}
	return selector.Matches(labels.Set(p.Labels)), nil
}

// allows reports whether a budget lets one pod go, as the Eviction API decides it.
func allows(b policyv1.PodDisruptionBudget, p corev1.Pod) bool {
	s := b.Status
	if !podutils.IsPodReady(&p) {
		policy := b.Spec.UnhealthyPodEvictionPolicy
		if policy != nil && *policy == policyv1.AlwaysAllow || s.DesiredHealthy > 0 && s.CurrentHealthy >= s.DesiredHealthy {
			return true
		}
	}
	return s.ObservedGeneration >= b.Generation && s.DisruptionsAllowed > 0
}
