package clusterdns

import (
	"context"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// budget is the minAvailable of the CoreDNS pods' budget, 0 without one.
func (d *CoreDNS) budget(ctx context.Context) (int, error) {
	budget, err := d.client.PolicyV1().PodDisruptionBudgets(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the PodDisruptionBudget of CoreDNS: %w", err)
	}
	minAvailable := ptr.Deref(budget.Spec.MinAvailable, intstr.IntOrString{})
	return minAvailable.IntValue(), nil
}

// setBudget gives the CoreDNS pods a budget with that minAvailable; 0 removes it.
func (d *CoreDNS) setBudget(ctx context.Context, minAvailable int) error {
	if now, err := d.budget(ctx); err != nil || now == minAvailable {
		return err
	}
	budgets := d.client.PolicyV1().PodDisruptionBudgets(namespace)
	if err := budgets.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the PodDisruptionBudget of CoreDNS: %w", err)
	}
	if minAvailable == 0 {
		return nil
	}
	_, err := budgets.Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(int32(minAvailable))),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: service}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create a PodDisruptionBudget of CoreDNS: %w", err)
	}
	return nil
}
