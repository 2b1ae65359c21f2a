package clusterdns

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// A CoreDNS that runs as a DaemonSet has the template of the Deployment, which has no pods meanwhile.

// hasDaemonSet reports whether the pods are those of a DaemonSet.
func (d *CoreDNS) hasDaemonSet(ctx context.Context) (bool, error) {
	_, err := d.client.AppsV1().DaemonSets(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, wrap.Errorf(err, "read DaemonSet coredns")
}

// removeDaemonSet removes it; its pods end when they are found to have no owner, or are removed.
func (d *CoreDNS) removeDaemonSet(ctx context.Context) error {
	err := d.client.AppsV1().DaemonSets(namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return wrap.Errorf(err, "remove DaemonSet coredns")
}

// createDaemonSet runs the pods of the Deployment's template on each node that it selects.
func (d *CoreDNS) createDaemonSet(ctx context.Context, want coredns.Settings) error {
	_, deploy, err := d.read(ctx)
	if err != nil {
		return err
	}
	_, err = d.client.AppsV1().DaemonSets(namespace).Create(ctx, daemonSetOf(deploy, want), metav1.CreateOptions{})
	return wrap.Errorf(err, "create DaemonSet coredns")
}

func daemonSetOf(deploy *appsv1.Deployment, want coredns.Settings) *appsv1.DaemonSet {
	template := deploy.Spec.Template.DeepCopy()
	template.Spec.Affinity, template.Spec.TopologySpreadConstraints = nil, nil
	daemons := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: deploy.Labels},
		Spec:       appsv1.DaemonSetSpec{Selector: deploy.Spec.Selector, Template: *template, MinReadySeconds: deploy.Spec.MinReadySeconds},
	}
	if r := want.Rollout; r.MaxUnavailable != "" || r.MaxSurge != "" {
		daemons.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{
			MaxUnavailable: amountOf(r.MaxUnavailable), MaxSurge: amountOf(r.MaxSurge),
		}}
	}
	return daemons
}

// wanted is how many pods there must be: the settings' or, with a DaemonSet, as many as it schedules. Why is
// the reason if that is not known yet.
func (d *CoreDNS) wanted(ctx context.Context, want coredns.Settings) (n int, why string) {
	if !want.DaemonSet {
		return want.Replicas, ""
	}
	daemons, err := d.client.AppsV1().DaemonSets(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil:
		return 0, err.Error()
	case daemons.Status.ObservedGeneration < daemons.Generation || daemons.Status.DesiredNumberScheduled == 0:
		return 0, fmt.Sprintf("DaemonSet coredns is not scheduled yet (generation %d of %d)", daemons.Status.ObservedGeneration, daemons.Generation)
	}
	return int(daemons.Status.DesiredNumberScheduled), ""
}
