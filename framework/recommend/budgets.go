package recommend

import (
	"fmt"
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
	if len(of) == 0 {
		return []Finding{{
			Rule: "budget", Got: "no PodDisruptionBudget selects the pods", Source: sourceBudget,
			Why: "if two nodes are drained at the same time, all replicas can be evicted at the same time",
			Fix: "a PodDisruptionBudget with maxUnavailable 1",
		}}
	}
	if len(of) > 1 {
		var names []string
		for _, b := range of {
			names = append(names, b.Name)
		}
		return []Finding{{
			Rule: "one-budget", Got: "several PodDisruptionBudgets select the pods: " + strings.Join(names, ", "), Source: sourceBudget,
			Why: "the API server refuses to evict a pod with more than one budget: drains are blocked, and the instance is taken with the pod still on it",
			Fix: "keep only one of them",
		}}
	}
	b := of[0]
	allowed, err := allows(b.Spec, s.Replicas)
	f := Finding{
		Rule: "budget-lets-one-go", Source: sourceBudget,
		Why: "drains are blocked: at the deadline the instance is taken with CoreDNS still on it, and as many queries are lost as without a drain",
		Fix: "maxUnavailable 1",
	}
	switch {
	case err != nil:
		f.Unknown, f.Got = true, fmt.Sprintf("PodDisruptionBudget %s: %v", b.Name, err)
	case allowed < 1:
		f.Got = fmt.Sprintf("PodDisruptionBudget %s allows no eviction of %d pods", b.Name, s.Replicas)
	case b.Status.ObservedGeneration == b.Generation && b.Status.ExpectedPods > 0 && b.Status.DisruptionsAllowed < 1:
		f.Got = fmt.Sprintf("PodDisruptionBudget %s allows no eviction now: %d pods are healthy and it requires %d", b.Name, b.Status.CurrentHealthy, b.Status.DesiredHealthy)
		f.Fix = "find out why pods are unhealthy: `kubectl -n " + b.Namespace + " get pods`"
	default:
		return nil
	}
	return []Finding{f}
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
