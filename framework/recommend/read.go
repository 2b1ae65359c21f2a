package recommend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

// Gap is a rule that cannot be evaluated, as something could not be read.
type Gap struct{ Rule, Why string }

// Read reads the workload that answers the cluster's DNS, or the one of that name, and what belongs to
// it. It only gets and lists: Services, EndpointSlices, Deployments, StatefulSets, DaemonSets, ConfigMaps,
// PodDisruptionBudgets, HorizontalPodAutoscalers and Pods of the namespace, and Nodes. If the cluster serves
// Karpenter's API, it also lists the workloads of every namespace, to find Karpenter and other handlers, and
// Karpenter's Pods, NodePools and EC2NodeClasses; it gets the ConfigMaps of their settings, and lists
// ClusterRoles and their bindings if only the rights of a workload show what it is. It gets the configuration of the
// kubelets of CoreDNS's nodes through the subresource proxy of Nodes, if it may. What cannot be read is a
// gap; the error is that nothing answers, or that the cluster has no DNS that can be judged.
func Read(ctx context.Context, client kubernetes.Interface, objects dynamic.Interface, namespace, name string) (DNS, error) {
	of, nodes, err := readNodes(ctx, client)
	why, fatal := unread(err)
	if fatal != nil {
		return DNS{}, err
	}
	d := DNS{Size: sizeOf(nodes), Zones: zonesOf(nodes), NodesUnread: why}
	var neighbours []Workload
	d.Workload, d.Others, neighbours, err = findWorkload(ctx, client, namespace, name)
	d.Platform = platformOf(d.Workload, nodes)
	d.readSupposed(nodes)
	if err != nil && (!errors.Is(err, errNoDNS) || d.Platform == "" || name != "") {
		return DNS{}, err
	}
	if d.Workload.Kind != "" {
		if err := d.readWorkload(ctx, client, of, neighbours); err != nil {
			return DNS{}, err
		}
		if err := d.readKubelets(ctx, client); err != nil {
			return DNS{}, err
		}
	}
	d.Karpenter, err = readKarpenter(ctx, client, objects, of)
	return d, err
}

// readWorkload reads what belongs to the workload. Neighbours are the workloads of its namespace.
func (d *DNS) readWorkload(ctx context.Context, client kubernetes.Interface, nodes nodeLabels, neighbours []Workload) (err error) {
	w := d.Workload
	if d.Mounts, err = readMounts(ctx, client, w); err != nil {
		return err
	}
	d.readCorefile()
	if c := w.container().DeepCopy(); c != nil {
		if err := resolve(ctx, client, w.Namespace, c); err != nil {
			return err
		}
		d.Env = c.Env
	}
	gap := func(rule string, err error) error {
		why, fatal := unread(err)
		if why != "" {
			d.Gaps = append(d.Gaps, Gap{rule, why})
		}
		return fatal
	}
	budgets, err := client.PolicyV1().PodDisruptionBudgets(w.Namespace).List(ctx, metav1.ListOptions{})
	if err == nil {
		d.Budgets = budgets.Items
	} else if !notServed(err) {
		if err := gap("budget", fmt.Errorf("list PodDisruptionBudgets in %s: %w", w.Namespace, err)); err != nil {
			return err
		}
	}
	d.Pods, err = nodes.podsSelected(ctx, client, w.ObjectMeta, w.Selector)
	if err := gap("not-all-on-spot", err); err != nil {
		return err
	}
	if d.Platform == EKSAddOn && len(w.ManagedFields) == 0 {
		d.Gaps = append(d.Gaps, Gap{"add-on-values-by-configuration", "who set what is not known without managedFields, which kubectl get prints with --show-managed-fields"})
	}
	if w.Kind == DaemonSet {
		d.Workload.Replicas = max(w.Replicas, len(d.Pods))
	}
	if err := d.readScaler(ctx, client, neighbours); err != nil {
		return err
	}
	if w.unset && d.Scaler != "" {
		d.Workload.Replicas = len(d.Pods)
	}
	return nil
}

// readScaler finds the autoscaler of the workload: a HorizontalPodAutoscaler, which KEDA makes as well, or a
// cluster-proportional-autoscaler among its neighbours.
func (d *DNS) readScaler(ctx context.Context, client kubernetes.Interface, neighbours []Workload) error {
	w := d.Workload
	scalers, err := client.AutoscalingV2().HorizontalPodAutoscalers(w.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		if _, fatal := unread(err); fatal != nil {
			return fmt.Errorf("list HorizontalPodAutoscalers in %s: %w", w.Namespace, err)
		}
		scalers = &autoscalingv2.HorizontalPodAutoscalerList{}
	}
	for i := range scalers.Items {
		if h := &scalers.Items[i]; h.Spec.ScaleTargetRef.Kind == string(w.Kind) && h.Spec.ScaleTargetRef.Name == w.Name {
			d.Scaler, d.ScaledFrom = "HorizontalPodAutoscaler "+h.Name, int(ptr.Deref(h.Spec.MinReplicas, 1))
			return nil
		}
	}
	for _, other := range neighbours {
		if c := proportionalAutoscaler().in(other); c != nil {
			target, _ := argument(c, "target")
			if kind, name, _ := strings.Cut(target, "/"); strings.EqualFold(kind, string(w.Kind)) && name == w.Name {
				d.Scaler = other.String() + ", a cluster-proportional-autoscaler"
			}
		}
	}
	return nil
}

// proportionalAutoscaler is how a cluster-proportional-autoscaler is known. Some distributions only keep its command.
func proportionalAutoscaler() program {
	return program{images: []string{"*/cluster-proportional-autoscaler*"}, commands: []string{"cluster-proportional-autoscaler"}}
}

// nodeLabels are the labels of each node, by its name. A node that is gone has none.
type nodeLabels map[string]map[string]string

func readNodes(ctx context.Context, client kubernetes.Interface) (nodeLabels, []corev1.Node, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("list nodes: %w", err)
	}
	of := nodeLabels{}
	for i := range list.Items {
		of[list.Items[i].Name] = list.Items[i].Labels
	}
	return of, list.Items, nil
}

// regions are those of the nodes.
func (of nodeLabels) regions() (names []string) {
	for _, labels := range of {
		if region := labels[corev1.LabelTopologyRegion]; region != "" && !slices.Contains(names, region) {
			names = append(names, region)
		}
	}
	return names
}

// zonesOf counts the zones of nodes.
func zonesOf(nodes []corev1.Node) int {
	zones := map[string]bool{}
	for i := range nodes {
		if zone := nodes[i].Labels[corev1.LabelTopologyZone]; zone != "" {
			zones[zone] = true
		}
	}
	return len(zones)
}

// podsSelected reads which nodes the pods of a workload run on. Terminating pods do not count.
func (of nodeLabels) podsSelected(ctx context.Context, client kubernetes.Interface, owner metav1.ObjectMeta, selector *metav1.LabelSelector) ([]Pod, error) {
	list, err := client.CoreV1().Pods(owner.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(selector)})
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s/%s: %w", owner.Namespace, owner.Name, err)
	}
	var out []Pod
	for i := range list.Items {
		p := &list.Items[i]
		if p.DeletionTimestamp != nil || p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		labels := of[p.Spec.NodeName]
		capacity, label := CapacityOf(labels)
		out = append(out, Pod{
			Name: p.Name, Node: p.Spec.NodeName, Zone: labels[corev1.LabelTopologyZone], Capacity: capacity, Label: label,
			Pool: cmp.Or(labels[poolLabel], labels[formerPoolLabel]), Kept: p.Annotations[coredns.DoNotDisrupt] == "true",
		})
	}
	return out, nil
}
