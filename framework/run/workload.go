package run

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/e2e-framework/klient/k8s"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/clusterdns"
	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/framework/objects"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/vpccni"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/scenarios"
)

// workload is what a drill's handler must move, or leave alone.
type workload struct {
	*drill
	pods    pods
	dns     *clusterdns.CoreDNS
	cluster *cluster.Cluster // for static pods
	addOns  addOns
}

// start creates the scenario's pods on the nodes that were picked, and their
// PodDisruptionBudgets.
func (w workload) start(ctx context.Context) error {
	of := w.Scenario.Workload
	if of.Replicas == 0 && !of.Daemon && len(of.Pods) == 0 {
		return nil
	}
	if err := w.pods.EnsureNamespace(ctx, w.namespace, system.WorkloadLabel); err != nil {
		return err
	}
	values := map[string]string{
		"NAMESPACE": w.namespace, "IMAGE": w.image, "REPLICAS": fmt.Sprint(of.Replicas),
		"WHERE": asYAML(whereToRun(of, w.otherTarget())), "OTHER": w.otherTarget(),
	}
	maps.Copy(values, podsOf(of))
	if of.SecurityGroups {
		if err := w.addOns.install(ctx); err != nil {
			return err
		}
	}
	for _, manifest := range []struct {
		needed bool
		file   string
	}{{of.Daemon, "daemon.yaml"}, {of.Replicas > 0, "workload.yaml"}, {of.Serves != nil, "service.yaml"}} {
		if !manifest.needed {
			continue
		}
		if err := w.create(ctx, manifest.file, values); err != nil {
			return err
		}
	}
	if of.BesideDNS {
		if err := w.createBesideDNS(ctx); err != nil {
			return err
		}
	}
	for _, pods := range of.Pods {
		if err := w.createPods(ctx, pods, values); err != nil {
			return err
		}
	}
	if err := w.ready(ctx); err != nil {
		return err
	}
	for _, budget := range of.Budgets {
		if err := w.createBudget(ctx, budget); err != nil {
			return err
		}
	}
	return nil
}

// create creates the objects of a manifest with pods that run where the drill's nodes are.
func (w workload) create(ctx context.Context, file string, values map[string]string) error {
	return w.pods.create(ctx, file, values, func(obj k8s.Object) {
		spec := podSpec(obj)
		if spec == nil || w.lane == "" && !w.Scenario.Workload.Fleet {
			return
		}
		spec.Tolerations = append(spec.Tolerations, cluster.TolerateVirtual())
		if w.lane != "" {
			if spec.NodeSelector == nil {
				spec.NodeSelector = map[string]string{}
			}
			spec.NodeSelector[cluster.LaneLabel] = w.lane
		}
	})
}

// podSpec is what an object of a workload's manifests has of its pods; nil if it has none.
func podSpec(obj k8s.Object) *corev1.PodSpec {
	switch o := obj.(type) {
	case *corev1.Pod:
		return &o.Spec
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec
	case *appsv1.StatefulSet:
		return &o.Spec.Template.Spec
	case *appsv1.DaemonSet:
		return &o.Spec.Template.Spec
	}
	return nil
}

// createBesideDNS creates the workload's Service at the address of kube-dns.
func (w workload) createBesideDNS(ctx context.Context) error {
	address, err := w.dns.ServiceIP(ctx)
	if err != nil {
		return err
	}
	return w.pods.create(ctx, "beside-dns.yaml", map[string]string{"NAMESPACE": w.namespace, "DNS": address})
}

// whereToRun is the node affinity of the pods of Workload.Replicas; other is a spot node that
// they avoid, if it is not empty.
func whereToRun(w scenarios.Workload, other string) corev1.NodeAffinity {
	in := func(key string, op corev1.NodeSelectorOperator, value string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: op, Values: []string{value}}
	}
	onSpot := in(nodes.CapacityLabel, corev1.NodeSelectorOpIn, nodes.Spot)
	switch {
	case w.Spill:
		return corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{onSpot}},
		}}}
	case w.Launched:
		return required(in(coredns.LaunchedKey, corev1.NodeSelectorOpIn, "true"))
	case w.Fleet:
		return required(in(cluster.VirtualLabel, corev1.NodeSelectorOpIn, "true"))
	}
	return required(onSpot, in(corev1.LabelHostname, corev1.NodeSelectorOpNotIn, other))
}

// required is the node affinity that requires all of it.
func required(all ...corev1.NodeSelectorRequirement) corev1.NodeAffinity {
	return corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: all}},
	}}
}

func (w workload) ready(ctx context.Context) error {
	of := w.Scenario.Workload
	if of.Daemon {
		if err := w.pods.DaemonSetReady(ctx, w.namespace, "daemon"); err != nil {
			return err
		}
	}
	if of.Replicas > 0 {
		if err := w.pods.DeploymentReady(ctx, w.namespace, scenarios.App); err != nil {
			return err
		}
	}
	for _, pods := range of.Pods {
		if err := w.podsReady(ctx, pods); err != nil {
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

func (w workload) createPods(ctx context.Context, pods scenarios.Pods, values map[string]string) error {
	node := w.nodes[pods.Node].Name
	values = map[string]string{
		"NAMESPACE": values["NAMESPACE"], "IMAGE": values["IMAGE"], "OTHER": values["OTHER"],
		"NODE": node, "CAPACITY": w.nodes[pods.Node].Capacity,
	}
	file := "pods/" + pods.Kind + ".yaml"
	if pods.Kind != staticPods {
		return w.create(ctx, file, values)
	}
	text, err := manifests.ReadFile("manifests/" + file)
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	return w.cluster.PutStatic(ctx, node, os.Expand(string(text), func(name string) string { return values[name] }))
}

// podsReady waits until pods of a kind run on the node where they start.
func (w workload) podsReady(ctx context.Context, pods scenarios.Pods) error {
	node := w.nodes[pods.Node].Name
	return wait.Until(ctx, objects.StartTimeout, fmt.Sprintf("pods %s on %s", pods.Kind, node), func(ctx context.Context) string {
		list, err := w.pods.Clientset.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + pods.Kind})
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
func (w workload) readyAgain(ctx context.Context, name string) (bool, error) {
	list, err := w.pods.Clientset.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		return false, fmt.Errorf("list pods %s: %w", name, err)
	}
	want := 1
	if name == scenarios.App {
		want = w.Scenario.Workload.Replicas
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

// deploy creates a DaemonSet on launched nodes, and returns when the scheduler has decided about
// each of its pods: some may not fit.
func (w workload) deploy(ctx context.Context, d scenarios.Do) error {
	if err := w.pods.EnsureNamespace(ctx, w.namespace, system.WorkloadLabel); err != nil {
		return fmt.Errorf("deploy %s: %w", d.DaemonSet, err)
	}
	w.Record(history.NewDeployed(d.DaemonSet))
	err := w.pods.create(ctx, "late.yaml", map[string]string{"NAMESPACE": w.namespace, "IMAGE": w.image, "NAME": d.DaemonSet, "MEMORY": d.Memory})
	if err != nil {
		return fmt.Errorf("deploy %s: %w", d.DaemonSet, err)
	}
	return wait.Until(ctx, objects.StartTimeout, "DaemonSet "+d.DaemonSet+" to be scheduled", func(ctx context.Context) string {
		return w.whyUndecided(ctx, d.DaemonSet)
	})
}

// whyUndecided is what the scheduler has not decided about the pods of a DaemonSet, or "".
func (w workload) whyUndecided(ctx context.Context, daemonSet string) string {
	set, err := w.pods.Clientset.AppsV1().DaemonSets(w.namespace).Get(ctx, daemonSet, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	list, err := w.pods.Clientset.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + daemonSet})
	if err != nil {
		return err.Error()
	}
	if want := int(set.Status.DesiredNumberScheduled); want == 0 || len(list.Items) < want {
		return fmt.Sprintf("there are %d of %s", len(list.Items), history.Count(want, "pod"))
	}
	for i := range list.Items {
		decided := func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled }
		if !slices.ContainsFunc(list.Items[i].Status.Conditions, decided) {
			return "the scheduler has not decided about " + list.Items[i].Name
		}
	}
	return ""
}

// workloadGrace is the grace period of a workload's pods in seconds, next to their preStop hook.
const workloadGrace = 10

// podsOf are the values of the workload's manifest that describe what its pods do.
func podsOf(w scenarios.Workload) map[string]string {
	values := map[string]string{"GRACE": fmt.Sprint(workloadGrace), "ARGS": asYAML([]string{"workload"}), "LIFECYCLE": "null", "READINESS": "null", "ANNOTATIONS": "{}"}
	if w.SecurityGroups {
		values["ANNOTATIONS"] = asYAML(map[string]string{vpccni.Annotation: "[]"})
	}
	if w.Serves == nil {
		return values
	}
	preStop := int64(w.Serves.PreStop.D().Seconds())
	values["GRACE"] = fmt.Sprint(workloadGrace + preStop)
	values["ARGS"] = asYAML([]string{"workload", "--http=:8080", fmt.Sprintf("--starts-in=%s", w.Serves.StartsIn.D())})
	values["READINESS"] = asYAML(corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}}, PeriodSeconds: 1,
	})
	if preStop > 0 {
		values["LIFECYCLE"] = asYAML(corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: preStop}}})
	}
	return values
}

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
			return fmt.Sprintf("it counts %s", history.Count(pdb.Status.ExpectedPods, "pod"))
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
