package clusterdns

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// state is everything that Set changes.
type state struct {
	Corefile   string                            `json:"corefile"`
	Deployment appsv1.DeploymentSpec             `json:"deployment"`
	DaemonSet  bool                              `json:"daemonSet,omitempty"`
	Budget     *policyv1.PodDisruptionBudgetSpec `json:"budget,omitempty"` // nil without one
	Serving    serving                           `json:"serving,omitzero"` // zero as kubeadm sets it
}

// present reads the current state.
func (d *CoreDNS) present(ctx context.Context) (state, error) {
	cm, deploy, err := d.read(ctx)
	if err != nil {
		return state{}, err
	}
	budget, err := d.budget(ctx)
	if err != nil {
		return state{}, err
	}
	svc, err := d.readService(ctx)
	if err != nil {
		return state{}, err
	}
	daemons, err := d.hasDaemonSet(ctx)
	return state{Corefile: cm.Data["Corefile"], Deployment: deploy.Spec, DaemonSet: daemons, Budget: budget, Serving: servingBy(svc)}, err
}

// Restore restores CoreDNS to the state that it had when the cluster was created, and
// waits until its pods are Ready.
func (d *CoreDNS) Restore(ctx context.Context) error {
	original, err := d.original(ctx)
	if err != nil {
		return err
	}
	now, err := d.present(ctx)
	if err != nil {
		return err
	}
	if same(now, original) {
		return nil
	}
	if err := d.setBudget(ctx, original.Budget); err != nil {
		return fmt.Errorf("restore CoreDNS: %w", err)
	}
	if err := d.setServing(ctx, original.Serving); err != nil {
		return fmt.Errorf("restore CoreDNS: %w", err)
	}
	if err := d.removeDaemonSet(ctx); err != nil {
		return fmt.Errorf("restore CoreDNS: %w", err)
	}
	err = d.replace(ctx, original.Corefile, func(deploy *appsv1.Deployment) { deploy.Spec = original.Deployment })
	if err != nil {
		return fmt.Errorf("restore CoreDNS: %w", err)
	}
	return d.waitReady(ctx, int(ptr.Deref(original.Deployment.Replicas, 1)), original.Serving)
}

// waitReady waits until that many CoreDNS pods are Ready and in the EndpointSlices.
func (d *CoreDNS) waitReady(ctx context.Context, replicas int, want serving) error {
	return wait.Until(ctx, readyTimeout, "CoreDNS", func(ctx context.Context) string {
		pods, err := d.ReadyPods(ctx)
		if err != nil {
			return err.Error()
		}
		if len(pods) != replicas {
			return fmt.Sprintf("%d of %s Ready", len(pods), history.Count(replicas, "pod"))
		}
		var ips []string
		for _, p := range pods {
			ips = append(ips, p.IP)
		}
		return d.whyNotServed(ctx, ips, want)
	})
}

func same(a, b state) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// Forward forwards external names to the resolver at server, so that no query leaves
// the cluster, and returns the image of CoreDNS. It is part of creating a cluster: the
// pods read the Corefile when they start, or reload it.
func (d *CoreDNS) Forward(ctx context.Context, server string) (image string, err error) {
	cm, deploy, err := d.read(ctx)
	if err != nil {
		return "", err
	}
	if cm.Data["Corefile"], err = withUpstream(cm.Data["Corefile"], server); err != nil {
		return "", err
	}
	if _, err := d.client.CoreV1().ConfigMaps(namespace).Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
		return "", fmt.Errorf("set Corefile: %w", err)
	}
	if c := containerOf(&deploy.Spec); c != nil {
		return c.Image, nil
	}
	return "", fmt.Errorf("the Deployment coredns has no container named %s", container)
}

// original is the state that CoreDNS had when the cluster was created.
func (d *CoreDNS) original(ctx context.Context) (state, error) {
	var original state
	saved, err := cluster.ReadState(ctx, d.client)
	if err != nil {
		return original, err
	}
	err = json.Unmarshal([]byte(saved[cluster.DNSState]), &original)
	return original, wrap.Errorf(err, "parse CoreDNS's original settings")
}

// State is the present state as Restore needs it later, for the state of the cluster.
func (d *CoreDNS) State(ctx context.Context) (string, error) {
	present, err := d.present(ctx)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(present)
	if err != nil {
		return "", fmt.Errorf("encode the state of CoreDNS: %w", err)
	}
	return string(text), nil
}

// budget is what the budget of the CoreDNS pods specifies; nil without one.
func (d *CoreDNS) budget(ctx context.Context) (*policyv1.PodDisruptionBudgetSpec, error) {
	budget, err := d.client.PolicyV1().PodDisruptionBudgets(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the PodDisruptionBudget of CoreDNS: %w", err)
	}
	return &budget.Spec, nil
}

// budgetOf is what the budget of CoreDNS with the settings specifies; nil without one.
func budgetOf(want coredns.Settings) *policyv1.PodDisruptionBudgetSpec {
	if want.MinAvailable == 0 && want.MaxUnavailable == "" {
		return nil
	}
	spec := &policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: service}}}
	if want.MinAvailable != 0 {
		spec.MinAvailable = ptr.To(intstr.FromInt32(int32(want.MinAvailable)))
	}
	spec.MaxUnavailable = amountOf(want.MaxUnavailable)
	if want.UnhealthyPodEvictionPolicy != "" {
		spec.UnhealthyPodEvictionPolicy = ptr.To(policyv1.UnhealthyPodEvictionPolicyType(want.UnhealthyPodEvictionPolicy))
	}
	return spec
}

// amountOf is a number of pods as Kubernetes has it; nil for none.
func amountOf(a coredns.Amount) *intstr.IntOrString {
	if a == "" {
		return nil
	}
	return ptr.To(intstr.Parse(string(a)))
}

// setBudget gives the CoreDNS pods a budget, or removes it.
func (d *CoreDNS) setBudget(ctx context.Context, want *policyv1.PodDisruptionBudgetSpec) error {
	now, err := d.budget(ctx)
	if err != nil || equality.Semantic.DeepEqual(now, want) {
		return err
	}
	budgets := d.client.PolicyV1().PodDisruptionBudgets(namespace)
	if err := budgets.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the PodDisruptionBudget of CoreDNS: %w", err)
	}
	if want == nil {
		return nil
	}
	_, err = budgets.Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *want}, metav1.CreateOptions{})
	return wrap.Errorf(err, "create a PodDisruptionBudget of CoreDNS")
}
