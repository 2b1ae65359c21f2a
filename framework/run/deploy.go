package run

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/objects"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/scenarios"
)

// deploy creates a DaemonSet on launched nodes, and returns when the scheduler has decided about
// each of its pods: some may not fit.
func (r *runner) deploy(ctx context.Context, d scenarios.Do) error {
	if err := r.sys.Cluster.Objects().EnsureNamespace(ctx, r.namespace, system.WorkloadLabel); err != nil {
		return fmt.Errorf("deploy %s: %w", d.DaemonSet, err)
	}
	r.rec.Record(history.NewDeployed(d.DaemonSet))
	err := r.create(ctx, "late.yaml", map[string]string{"NAMESPACE": r.namespace, "IMAGE": r.sys.Image, "NAME": d.DaemonSet, "MEMORY": d.Memory})
	if err != nil {
		return fmt.Errorf("deploy %s: %w", d.DaemonSet, err)
	}
	return wait.Until(ctx, objects.StartTimeout, "DaemonSet "+d.DaemonSet+" to be scheduled", func(ctx context.Context) string {
		return r.whyUndecided(ctx, d.DaemonSet)
	})
}

// whyUndecided is what the scheduler has not decided about the pods of a DaemonSet, or "".
func (r *runner) whyUndecided(ctx context.Context, daemonSet string) string {
	set, err := r.sys.Cluster.Clientset.AppsV1().DaemonSets(r.namespace).Get(ctx, daemonSet, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	list, err := r.sys.Cluster.Clientset.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + daemonSet})
	if err != nil {
		return err.Error()
	}
	if want := int(set.Status.DesiredNumberScheduled); want == 0 || len(list.Items) < want {
		return fmt.Sprintf("there are %d of %d pods", len(list.Items), want)
	}
	for i := range list.Items {
		decided := func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled }
		if !slices.ContainsFunc(list.Items[i].Status.Conditions, decided) {
			return "the scheduler has not decided about " + list.Items[i].Name
		}
	}
	return ""
}
