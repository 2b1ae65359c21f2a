package run

import (
	"cmp"
	"context"
	"fmt"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/objects"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/scenarios"
)

// createBudget creates a PodDisruptionBudget and waits until its controller has counted
// the pods: before that, it allows no eviction.
func (w workload) createBudget(ctx context.Context, b scenarios.Budget) error {
	err := w.pods.create(ctx, "budget.yaml", map[string]string{
		"NAMESPACE": w.namespace, "NAME": b.ID(), "PODS": b.Pods, "MIN_AVAILABLE": fmt.Sprint(b.MinAvailable),
		"POLICY": cmp.Or(b.UnhealthyPodEvictionPolicy, string(policyv1.IfHealthyBudget)),
	})
	if err != nil {
		return err
	}
	return wait.Until(ctx, objects.StartTimeout, "PodDisruptionBudget "+b.ID(), func(ctx context.Context) string {
		pdb, err := w.pods.Clientset.PolicyV1().PodDisruptionBudgets(w.namespace).Get(ctx, b.ID(), metav1.GetOptions{})
		switch {
		case err != nil:
			return err.Error()
		case pdb.Status.ObservedGeneration < pdb.Generation || pdb.Status.ExpectedPods == 0:
			return fmt.Sprintf("it counts %d pods", pdb.Status.ExpectedPods)
		case b.Pods == scenarios.App && int(pdb.Status.CurrentHealthy) != w.Scenario.Workload.Replicas:
			return fmt.Sprintf("it counts %d healthy pods", pdb.Status.CurrentHealthy)
		}
		return ""
	})
}

// changeBudget changes the budget's minAvailable, or deletes a second one.
func (w workload) changeBudget(ctx context.Context, c scenarios.Do) error {
	// The time before the change: a pod that it lets go must terminate later on the record.
	at := w.now()
	if c.Verb == scenarios.Delete {
		if err := w.pods.Clientset.PolicyV1().PodDisruptionBudgets(w.namespace).Delete(ctx, c.Budget, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("delete PodDisruptionBudget %s: %w", c.Budget, err)
		}
		w.recordBudget(at, c.Pods, c.Name, *c.MinAvailable)
		return nil
	}
	patch := fmt.Appendf(nil, `{"spec":{"minAvailable":%d}}`, *c.MinAvailable)
	_, err := w.pods.Clientset.PolicyV1().PodDisruptionBudgets(w.namespace).Patch(ctx, c.Pods, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("change PodDisruptionBudget %s: %w", c.Pods, err)
	}
	w.recordBudget(at, c.Pods, c.Name, *c.MinAvailable)
	return nil
}

func (w workload) recordBudget(at time.Duration, pods, step string, minAvailable int) {
	w.Record(history.NewBudgetSet(step, pods, history.At(at), history.With(history.Numbers{history.MinAvailable: float64(minAvailable)})))
}
