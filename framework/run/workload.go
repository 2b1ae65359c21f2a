package run

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// startWorkload makes the pods that the scenario wants, on the nodes that were
// picked, and the budgets over them.
func (r *drilling) startWorkload(ctx context.Context) error {
	w := r.Scenario.Workload
	if w.Replicas == 0 && !w.Daemon && len(w.Pods) == 0 {
		return nil
	}
	if err := r.ensureNamespace(ctx, r.namespace, workloadLabel); err != nil {
		return err
	}
	values := map[string]string{"NAMESPACE": r.namespace, "IMAGE": r.image, "REPLICAS": fmt.Sprint(w.Replicas), "WHERE": onSpot(r.other()), "OTHER": r.other()}
	if w.Spill {
		values["WHERE"] = firstOnSpot
	}
	if w.Daemon {
		if err := r.create(ctx, "daemon.yaml", values); err != nil {
			return err
		}
	}
	if w.Replicas > 0 {
		if err := r.create(ctx, "workload.yaml", values); err != nil {
			return err
		}
	}
	for _, pods := range w.Pods {
		if err := r.createPods(ctx, pods, values); err != nil {
			return err
		}
	}
	if err := r.workloadReady(ctx); err != nil {
		return err
	}
	for _, budget := range w.Budgets {
		if err := r.createBudget(ctx, budget); err != nil {
			return err
		}
	}
	return nil
}

// Where the pods of Workload.Replicas run, as their node affinity.
const (
	ofSpot      = "{key: " + cluster.CapacityLabel + ", operator: In, values: [" + cluster.Spot + "]}"
	firstOnSpot = "{preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, preference: {matchExpressions: [" + ofSpot + "]}}]}"
)

// onSpot is any spot node but one.
func onSpot(other string) string {
	return "{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [" +
		ofSpot + ", {key: " + corev1.LabelHostname + `, operator: NotIn, values: ["` + other + `"]}]}]}}`
}

// other is the target of the drill beside this one: a pod that moved there would be
// evicted a second time. No node is named "".
func (r *drilling) other() string {
	for _, o := range r.beside {
		for _, node := range o.targets() {
			return node
		}
	}
	return ""
}

func (r *drilling) workloadReady(ctx context.Context) error {
	w := r.Scenario.Workload
	if w.Daemon {
		if err := r.daemonReady(ctx, r.namespace, "daemon"); err != nil {
			return err
		}
	}
	if w.Replicas > 0 {
		if err := r.deploymentReady(ctx, r.namespace, scenarios.App); err != nil {
			return err
		}
	}
	for _, pods := range w.Pods {
		if err := r.podsReady(ctx, pods); err != nil {
			return err
		}
	}
	return nil
}

// Kinds of further pods that are not made or waited for as all others are.
const (
	staticPods  = "static"
	unreadyPods = "unready"
)

func (r *drilling) createPods(ctx context.Context, pods scenarios.Pods, values map[string]string) error {
	node := r.nodes[pods.Node].Name
	values = map[string]string{"NAMESPACE": values["NAMESPACE"], "IMAGE": values["IMAGE"], "NODE": node, "OTHER": values["OTHER"]}
	file := "pods/" + pods.Kind + ".yaml"
	if pods.Kind != staticPods {
		return r.create(ctx, file, values)
	}
	text, err := manifests.ReadFile("manifests/" + file)
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	return r.Cluster.PutStatic(ctx, node, os.Expand(string(text), func(name string) string { return values[name] }))
}

// podsReady waits until the further pods run where they are to start.
func (r *drilling) podsReady(ctx context.Context, pods scenarios.Pods) error {
	node := r.nodes[pods.Node].Name
	return cluster.Until(ctx, startTimeout, fmt.Sprintf("pods %s on %s", pods.Kind, node), func(ctx context.Context) string {
		list, err := r.Cluster.Clientset.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + pods.Kind})
		if err != nil {
			return err.Error()
		}
		if len(list.Items) == 0 {
			return "there is none yet"
		}
		for i := range list.Items {
			if why := whyNotStarted(&list.Items[i], node, pods.Kind != unreadyPods); why != "" {
				return why
			}
		}
		return ""
	})
}

// readyAgain is true when the pods of the workload that go by the name are as many
// as they were, Ready, and none is on its way out.
func (r *drilling) readyAgain(ctx context.Context, name string) (bool, error) {
	list, err := r.Cluster.Clientset.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		return false, fmt.Errorf("list pods %s: %w", name, err)
	}
	want := 1
	if name == scenarios.App {
		want = r.Scenario.Workload.Replicas
	}
	for i := range list.Items {
		p := &list.Items[i]
		if p.DeletionTimestamp != nil || whyNotStarted(p, p.Spec.NodeName, true) != "" {
			return false, nil
		}
	}
	return len(list.Items) >= want, nil
}

// whyNotStarted says what a pod lacks to be running on the node, or "".
func whyNotStarted(p *corev1.Pod, node string, ready bool) string {
	switch {
	case p.Spec.NodeName != "" && p.Spec.NodeName != node:
		return fmt.Sprintf("%s was put on %s", p.Name, p.Spec.NodeName)
	case p.Status.Phase != corev1.PodRunning:
		return fmt.Sprintf("%s has phase %s", p.Name, p.Status.Phase)
	}
	for _, cond := range p.Status.Conditions {
		if cond.Type == corev1.PodReady && ready && cond.Status != corev1.ConditionTrue {
			return p.Name + " is not Ready"
		}
	}
	return ""
}

// createBudget makes a PodDisruptionBudget and waits until it protects: before
// its controller has counted the pods, it lets none go.
func (r *drilling) createBudget(ctx context.Context, b scenarios.Budget) error {
	err := r.create(ctx, "budget.yaml", map[string]string{
		"NAMESPACE": r.namespace, "PODS": b.Pods, "MIN_AVAILABLE": fmt.Sprint(b.MinAvailable),
		"POLICY": cmp.Or(b.UnhealthyPodEvictionPolicy, string(policyv1.IfHealthyBudget)),
	})
	if err != nil {
		return err
	}
	return cluster.Until(ctx, startTimeout, "PodDisruptionBudget "+b.Pods, func(ctx context.Context) string {
		pdb, err := r.Cluster.Clientset.PolicyV1().PodDisruptionBudgets(r.namespace).Get(ctx, b.Pods, metav1.GetOptions{})
		switch {
		case err != nil:
			return err.Error()
		case pdb.Status.ObservedGeneration < pdb.Generation || pdb.Status.ExpectedPods == 0:
			return fmt.Sprintf("it counts %d pods", pdb.Status.ExpectedPods)
		case b.Pods == scenarios.App && int(pdb.Status.CurrentHealthy) != r.Scenario.Workload.Replicas:
			return fmt.Sprintf("it counts %d healthy pods", pdb.Status.CurrentHealthy)
		}
		return ""
	})
}

// changeBudget waits for its time after the notice and gives the budget another
// minAvailable.
func (r *drilling) changeBudget(ctx context.Context, c scenarios.BudgetChange) error {
	if err := r.sleepUntil(ctx, r.notices[c.At].put+c.After.D()); err != nil {
		return err
	}
	// A pod that goes because of the change goes after it also on the record.
	at := r.rec.Clock().Now()
	patch := fmt.Appendf(nil, `{"spec":{"minAvailable":%d}}`, c.MinAvailable)
	_, err := r.Cluster.Clientset.PolicyV1().PodDisruptionBudgets(r.namespace).Patch(ctx, c.Pods, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("change PodDisruptionBudget %s: %w", c.Pods, err)
	}
	r.recordBudget(at, c.Pods, c.Name, c.MinAvailable)
	return nil
}

func (r *drilling) recordBudget(at time.Duration, pods, step string, minAvailable int) {
	r.rec.Record(history.Event{Kind: history.BudgetSet, At: at, Key: pods, Reason: step, Numbers: history.Numbers{history.MinAvailable: float64(minAvailable)}})
}

// workloadLabel marks the namespaces of workloads.
const workloadLabel = "spotdrill.dev/workload"

// newNamespace names that of the next drill's workload. Each gets another: the one
// before may take some seconds to be gone.
func (s *System) newNamespace() string {
	s.drills++
	return fmt.Sprintf("%s-%d", workloadPrefix, s.drills)
}

// removeWorkload deletes the namespaces of all drills, and waits until no pod is left
// in them, but not for pods whose node is gone. What else is in them goes by itself:
// nothing can be made in a namespace that is being deleted.
func (s *System) removeWorkload(ctx context.Context) error {
	namespaces := s.Cluster.Clientset.CoreV1().Namespaces()
	list, err := namespaces.List(ctx, metav1.ListOptions{LabelSelector: workloadLabel})
	if err != nil {
		return fmt.Errorf("list the namespaces of drills: %w", err)
	}
	for _, ns := range list.Items {
		if err := namespaces.Delete(ctx, ns.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete namespace %s: %w", ns.Name, err)
		}
		if err := s.removePods(ctx, ns.Name, metav1.ListOptions{}, "the pods of namespace "+ns.Name); err != nil {
			return err
		}
	}
	return nil
}

// workloadGone waits until the namespaces of all drills are gone.
func (s *System) workloadGone(ctx context.Context) error {
	return cluster.Until(ctx, startTimeout, "the namespaces of drills to be gone", func(ctx context.Context) string {
		list, err := s.Cluster.Clientset.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: workloadLabel})
		if err != nil {
			return err.Error()
		}
		if len(list.Items) > 0 {
			return fmt.Sprintf("%s is still there", list.Items[0].Name)
		}
		return ""
	})
}
