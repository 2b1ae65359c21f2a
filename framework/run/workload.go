package run

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/framework/objects"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/scenarios"
)

// startWorkload creates the scenario's pods on the nodes that were picked, and their
// PodDisruptionBudgets.
func (r *runner) startWorkload(ctx context.Context) error {
	w := r.Scenario.Workload
	if w.Replicas == 0 && !w.Daemon && len(w.Pods) == 0 {
		return nil
	}
	if err := r.sys.Cluster.Objects().EnsureNamespace(ctx, r.namespace, system.WorkloadLabel); err != nil {
		return err
	}
	values := map[string]string{"NAMESPACE": r.namespace, "IMAGE": r.sys.Image, "REPLICAS": fmt.Sprint(w.Replicas), "WHERE": onSpot(r.other()), "OTHER": r.other()}
	maps.Copy(values, podsOf(w))
	if w.SecurityGroups {
		if err := r.installVPCCNI(ctx); err != nil {
			return err
		}
	}
	switch {
	case w.Spill:
		values["WHERE"] = firstOnSpot
	case w.Launched:
		values["WHERE"] = onLaunched
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
	if w.Serves != nil {
		if err := r.create(ctx, "service.yaml", values); err != nil {
			return err
		}
	}
	if w.BesideDNS {
		if err := r.createBesideDNS(ctx); err != nil {
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

// createBesideDNS creates the workload's Service at the address of kube-dns.
func (r *runner) createBesideDNS(ctx context.Context) error {
	address, err := r.sys.DNS.ServiceIP(ctx)
	if err != nil {
		return err
	}
	return r.create(ctx, "beside-dns.yaml", map[string]string{"NAMESPACE": r.namespace, "DNS": address})
}

// The node affinities of the pods of Workload.Replicas.
const (
	ofSpot      = "{key: " + nodes.CapacityLabel + ", operator: In, values: [" + nodes.Spot + "]}"
	firstOnSpot = "{preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, preference: {matchExpressions: [" + ofSpot + "]}}]}"
)

// onLaunched is the node affinity for the nodes that the handler launches.
const onLaunched = "{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: " + coredns.LaunchedKey + `, operator: In, values: ["true"]}]}]}}`

// onSpot is the node affinity for any spot node but one.
func onSpot(other string) string {
	return "{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [" +
		ofSpot + ", {key: " + corev1.LabelHostname + `, operator: NotIn, values: ["` + other + `"]}]}]}}`
}

// other is the target of the drill next to this one, "" without one: a pod that moved
// there would be evicted a second time.
func (r *runner) other() string {
	for _, o := range r.beside {
		for _, node := range o.targets() {
			return node
		}
	}
	return ""
}

func (r *runner) workloadReady(ctx context.Context) error {
	w := r.Scenario.Workload
	if w.Daemon {
		if err := r.sys.Cluster.Objects().DaemonSetReady(ctx, r.namespace, "daemon"); err != nil {
			return err
		}
	}
	if w.Replicas > 0 {
		if err := r.sys.Cluster.Objects().DeploymentReady(ctx, r.namespace, scenarios.App); err != nil {
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

// Kinds of pods that are not created, or not waited for, like all others.
const (
	staticPods   = "static"
	unreadyPods  = "unready"
	pendingPods  = "pending"
	finishedPods = "finished"
)

// startedPhase is the phase in which pods of a kind are there as the drill needs them.
func startedPhase(kind string) corev1.PodPhase {
	switch kind {
	case pendingPods:
		return corev1.PodPending
	case finishedPods:
		return corev1.PodSucceeded
	}
	return corev1.PodRunning
}

func (r *runner) createPods(ctx context.Context, pods scenarios.Pods, values map[string]string) error {
	node := r.nodes[pods.Node].Name
	values = map[string]string{
		"NAMESPACE": values["NAMESPACE"], "IMAGE": values["IMAGE"], "OTHER": values["OTHER"],
		"NODE": node, "CAPACITY": r.nodes[pods.Node].Capacity,
	}
	file := "pods/" + pods.Kind + ".yaml"
	if pods.Kind != staticPods {
		return r.create(ctx, file, values)
	}
	text, err := manifests.ReadFile("manifests/" + file)
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	return r.sys.Cluster.PutStatic(ctx, node, os.Expand(string(text), func(name string) string { return values[name] }))
}

// podsReady waits until pods of a kind run on the node where they start.
func (r *runner) podsReady(ctx context.Context, pods scenarios.Pods) error {
	node := r.nodes[pods.Node].Name
	return wait.Until(ctx, objects.StartTimeout, fmt.Sprintf("pods %s on %s", pods.Kind, node), func(ctx context.Context) string {
		list, err := r.sys.Cluster.Clientset.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + pods.Kind})
		if err != nil {
			return err.Error()
		}
		if len(list.Items) == 0 {
			return "there is none yet"
		}
		for i := range list.Items {
			if why := whyNotThere(&list.Items[i], node, pods.Kind); why != "" {
				return why
			}
		}
		return ""
	})
}

// readyAgain reports whether the workload has as many pods of the name as at first, all
// Ready and none terminating.
func (r *runner) readyAgain(ctx context.Context, name string) (bool, error) {
	list, err := r.sys.Cluster.Clientset.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
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

// whyNotThere is what a pod of a kind lacks to be on the node as the drill needs it, or "".
func whyNotThere(p *corev1.Pod, node, kind string) string {
	switch phase := startedPhase(kind); {
	case phase == corev1.PodRunning:
		return whyNotStarted(p, node, kind != unreadyPods)
	case p.Spec.NodeName != node:
		return fmt.Sprintf("%s is on %q", p.Name, p.Spec.NodeName)
	case p.Status.Phase != phase:
		return fmt.Sprintf("%s has phase %s", p.Name, p.Status.Phase)
	}
	return ""
}

// whyNotStarted is what a pod lacks to be running on the node, or "".
func whyNotStarted(p *corev1.Pod, node string, ready bool) string {
	switch {
	case p.Spec.NodeName != "" && p.Spec.NodeName != node:
		return fmt.Sprintf("%s was scheduled on %s", p.Name, p.Spec.NodeName)
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

// createBudget creates a PodDisruptionBudget and waits until its controller has counted
// the pods: before that, it allows no eviction.
func (r *runner) createBudget(ctx context.Context, b scenarios.Budget) error {
	err := r.create(ctx, "budget.yaml", map[string]string{
		"NAMESPACE": r.namespace, "NAME": b.ID(), "PODS": b.Pods, "MIN_AVAILABLE": fmt.Sprint(b.MinAvailable),
		"POLICY": cmp.Or(b.UnhealthyPodEvictionPolicy, string(policyv1.IfHealthyBudget)),
	})
	if err != nil {
		return err
	}
	return wait.Until(ctx, objects.StartTimeout, "PodDisruptionBudget "+b.ID(), func(ctx context.Context) string {
		pdb, err := r.sys.Cluster.Clientset.PolicyV1().PodDisruptionBudgets(r.namespace).Get(ctx, b.ID(), metav1.GetOptions{})
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

// changeBudget changes the budget's minAvailable, or deletes a second one.
func (r *runner) changeBudget(ctx context.Context, c scenarios.Do) error {
	// The time before the change: a pod that it lets go must terminate later on the record.
	at := r.rec.Clock().Now()
	if c.Verb == scenarios.Delete {
		if err := r.sys.Cluster.Clientset.PolicyV1().PodDisruptionBudgets(r.namespace).Delete(ctx, c.Budget, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("delete PodDisruptionBudget %s: %w", c.Budget, err)
		}
		r.recordBudget(at, c.Pods, c.Name, *c.MinAvailable)
		return nil
	}
	patch := fmt.Appendf(nil, `{"spec":{"minAvailable":%d}}`, *c.MinAvailable)
	_, err := r.sys.Cluster.Clientset.PolicyV1().PodDisruptionBudgets(r.namespace).Patch(ctx, c.Pods, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("change PodDisruptionBudget %s: %w", c.Pods, err)
	}
	r.recordBudget(at, c.Pods, c.Name, *c.MinAvailable)
	return nil
}

func (r *runner) recordBudget(at time.Duration, pods, step string, minAvailable int) {
	r.rec.Record(history.NewBudgetSet(step, pods, history.At(at), history.With(history.Numbers{history.MinAvailable: float64(minAvailable)})))
}
