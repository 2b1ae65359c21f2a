package consent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
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
		i.refuse("%s would lose the data in emptyDir volumes: %s; allow it, or choose another node", count(len(of), "pod"), few(namesOf(of)))
	}
}

func (i *inspection) refuseBare() {
	if of := only(i.pods, bare); len(of) > 0 && !i.plan.Request.Force {
		i.refuse("nothing would create %s again, which has no controller: %s; allow it with force, or choose another node", count(len(of), "pod"), few(namesOf(of)))
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

// nodesOf returns the nodes of pods, each once.
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
