package consent

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/util/podutils"
)

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
			i.refuse("PodDisruptionBudget %s/%s allows no eviction now (%d pods are healthy, it requires %d), and it covers %s: wait until its pods are healthy, or change it", b.Namespace, b.Name, b.Status.CurrentHealthy, b.Status.DesiredHealthy, few(pods))
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
