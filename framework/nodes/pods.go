package nodes

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// PodsOn lists the pods that are bound to a node.
func PodsOn(ctx context.Context, client kubernetes.Interface, node string) ([]corev1.Pod, error) {
	list, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list pods on %s: %w", node, err)
	}
	return list.Items, nil
}

// ForceDeletePod removes a pod from the API without waiting for its kubelet.
func ForceDeletePod(ctx context.Context, client kubernetes.Interface, p corev1.Pod) error {
	now := int64(0)
	err := client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// RemovePodsOn removes the pods that are bound to a node, without their kubelet.
func RemovePodsOn(ctx context.Context, client kubernetes.Interface, node string) error {
	pods, err := PodsOn(ctx, client, node)
	if err != nil {
		return err
	}
	for _, p := range pods {
		if err := ForceDeletePod(ctx, client, p); err != nil {
			return err
		}
	}
	return nil
}

// Evictable counts the pods on a node that a drain has to evict.
func Evictable(ctx context.Context, client kubernetes.Interface, node string) (int, error) {
	pods, err := PodsOn(ctx, client, node)
	if err != nil {
		return 0, err
	}
	n := 0
	for i := range pods {
		if MustLeave(&pods[i]) {
			n++
		}
	}
	return n, nil
}

// MustLeave is history.Evictable for a pod of the API: what the arrangement of a drill counts. A check also
// leaves out what tolerates the taint of the handler that it judges.
func MustLeave(p *corev1.Pod) bool {
	_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	ref := metav1.GetControllerOf(p)
	daemon := ref != nil && ref.Kind == "DaemonSet"
	return !mirror && !daemon && !Finished(p) && !ToleratesCordon(p)
}

// ToleratesCordon reports whether a pod can be scheduled to a cordoned node: if it is
// evicted, it may return to the node.
func ToleratesCordon(p *corev1.Pod) bool {
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	return slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.ToleratesTaint(klog.Background(), &cordon, false)
	})
}

// Finished reports whether a pod has ended by itself.
func Finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}
