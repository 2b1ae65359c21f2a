package builtin

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// criticalPriority is where the system's own priority classes begin
// (system-cluster-critical); users cannot go above 1,000,000,000.
const criticalPriority = 2_000_000_000

// leaving reports whether a drain must evict the pod. Unlike kubectl drain it leaves
// finished pods, which use nothing, and pods that tolerate the taint or the cordon, which
// are meant to stay. It needs no right to read DaemonSets, because a daemon pod whose
// DaemonSet was deleted terminates anyway. It is the handler's own rule and shares no code with history.Evictable,
// by which it is judged: an error in one of them shows.
func leaving(pod *corev1.Pod) bool {
	return !finished(pod) && !mirror(pod) && !daemon(pod) && !tolerates(pod, disruptedTaint()) && !tolerates(pod, cordonTaint())
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// mirror reports whether the pod represents a static pod in the API: evicting it would
// change nothing.
func mirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// daemon pods would return to the node at once: they have the tolerations.
func daemon(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

// cordonTaint is what Kubernetes puts on a node that is marked unschedulable.
func cordonTaint() corev1.Taint {
	return corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
}

func tolerates(pod *corev1.Pod, taint corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.ToleratesTaint(klog.Background(), &taint, false)
	})
}

func critical(pod *corev1.Pod) bool {
	if pod.Spec.Priority != nil {
		return *pod.Spec.Priority >= criticalPriority
	}
	return pod.Spec.PriorityClassName == "system-cluster-critical" || pod.Spec.PriorityClassName == "system-node-critical"
}

// due selects, of the pods that must leave, those to evict now: the ones that are not
// terminating yet, and critical ones only when no other is left or their wait is over.
func due(pods []corev1.Pod, criticalToo bool) []corev1.Pod {
	ordinary := false
	for i := range pods {
		ordinary = ordinary || !critical(&pods[i])
	}
	var out []corev1.Pod
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil && (!critical(&pod) || !ordinary || criticalToo) {
			out = append(out, pod)
		}
	}
	return out
}
