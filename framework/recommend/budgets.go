package recommend

import (
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

// budgetsOfPods returns the budgets that select the pods of CoreDNS.
func (d DNS) budgetsOfPods() (of []policyv1.PodDisruptionBudget) {
	for _, b := range d.Budgets {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(d.Deployment.Spec.Template.Labels)) {
			of = append(of, b)
		}
	}
	return of
}

// lintBudgets checks how many pods can be evicted at a time.
func (d DNS) lintBudgets(s coredns.Settings) []Finding {
	of := d.budgetsOfPods()
	switch len(of) {
	case 0:
		return []Finding{breaks("budget", "no PodDisruptionBudget selects the pods")}
	case 1:
	default:
		var names []string
		for _, b := range of {
			names = append(names, b.Name)
		}
		return []Finding{breaks("one-budget", "several PodDisruptionBudgets select the pods: %s", strings.Join(names, ", "))}
	}
	b := of[0]
	const rule = "budget-lets-one-go"
	switch allowed, err := allows(b.Spec, s.Replicas); {
	case err != nil:
		return []Finding{unknown(rule, "PodDisruptionBudget %s: %v", b.Name, err)}
	case allowed < 1:
		return []Finding{breaks(rule, "PodDisruptionBudget %s allows no eviction of %d pods", b.Name, s.Replicas)}
	case b.Status.ObservedGeneration == b.Generation && b.Status.ExpectedPods > 0 && b.Status.DisruptionsAllowed < 1:
		f := breaks(rule, "PodDisruptionBudget %s allows no eviction now: %d pods are healthy and it requires %d", b.Name, b.Status.CurrentHealthy, b.Status.DesiredHealthy)
		f.Fix = "find out why pods are unhealthy: `kubectl -n " + b.Namespace + " get pods`"
		return []Finding{f}
	}
	return nil
}

// allows returns how many of that many healthy pods a budget allows to evict. As in
// Kubernetes, a percentage is rounded up, and a budget without a value keeps one pod.
func allows(spec policyv1.PodDisruptionBudgetSpec, replicas int) (int, error) {
	if spec.MaxUnavailable != nil {
		n, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, replicas, true)
		return min(n, replicas), err
	}
	stay := intstr.FromInt32(1)
	if spec.MinAvailable != nil {
		stay = *spec.MinAvailable
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&stay, replicas, true)
	return replicas - n, err
}
