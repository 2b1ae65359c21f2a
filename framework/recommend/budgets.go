package recommend

import (
	"fmt"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// lintBudgets asks how many pods an eviction may take at a time.
func (d DNS) lintBudgets(s Settings) []Finding {
	var of []policyv1.PodDisruptionBudget
	for _, b := range d.Budgets {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(d.Deployment.Spec.Template.Labels)) {
			of = append(of, b)
		}
	}
	if len(of) == 0 {
		return []Finding{{
			Rule: "budget", Got: "no PodDisruptionBudget selects the pods", Source: sourceBudget,
			Why: "two nodes that are drained at once take all replicas at once",
			Fix: "a PodDisruptionBudget with maxUnavailable 1",
		}}
	}
	if len(of) > 1 {
		var names []string
		for _, b := range of {
			names = append(names, b.Name)
		}
		return []Finding{{
			Rule: "one-budget", Got: "the pods are of several PodDisruptionBudgets: " + strings.Join(names, ", "), Source: sourceBudget,
			Why: "the API server refuses to evict a pod of more than one: no drain gets past it, and the instance goes with the pod on it",
			Fix: "leave one of them",
		}}
	}
	b := of[0]
	allowed, err := allows(b.Spec, s.Replicas)
	f := Finding{
		Rule: "budget-lets-one-go", Source: sourceBudget,
		Why: "no drain gets past the pod: at the end of the notice the instance goes with CoreDNS on it, which costs as much as no drain at all",
		Fix: "maxUnavailable 1",
	}
	switch {
	case err != nil:
		f.Unknown, f.Got = true, fmt.Sprintf("PodDisruptionBudget %s: %v", b.Name, err)
	case allowed < 1:
		f.Got = fmt.Sprintf("PodDisruptionBudget %s lets no pod of %d go", b.Name, s.Replicas)
	case b.Status.ObservedGeneration == b.Generation && b.Status.ExpectedPods > 0 && b.Status.DisruptionsAllowed < 1:
		f.Got = fmt.Sprintf("PodDisruptionBudget %s lets no pod go now: %d of the %d that it wants are healthy", b.Name, b.Status.CurrentHealthy, b.Status.DesiredHealthy)
		f.Fix = "bring the pods back to health: `kubectl -n " + b.Namespace + " get pods`"
	default:
		return nil
	}
	return []Finding{f}
}

// allows is how many of so many healthy pods a budget lets go. As in Kubernetes a
// percentage is rounded up, and a budget that says nothing wants one to stay.
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
