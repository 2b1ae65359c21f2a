package recommend

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

// Read reads the workload that answers the cluster's DNS, or the one of that name, and what belongs to
// it. It only gets and lists: Services, Deployments, DaemonSets, ConfigMaps, PodDisruptionBudgets and
// Pods of the namespace, and Nodes. If the cluster serves Karpenter's API, it also lists the Deployments
// and DaemonSets of every namespace, to find Karpenter and other handlers, and Karpenter's Pods, NodePools
// and EC2NodeClasses; it gets the ConfigMaps of their settings, and lists ClusterRoles and their bindings
// where only the rights of a workload show what it is.
func Read(ctx context.Context, client kubernetes.Interface, objects dynamic.Interface, namespace, name string) (DNS, error) {
	of, nodes, err := readNodes(ctx, client)
	if err != nil {
		return DNS{}, err
	}
	d := DNS{Size: sizeOf(nodes), Zones: zonesOf(nodes)}
	d.Workload, d.Others, err = findWorkload(ctx, client, namespace, name)
	d.Platform = platformOf(d.Workload, nodes)
	if err != nil && (!errors.Is(err, errNoDNS) || d.Platform == "" || name != "") {
		return DNS{}, err
	}
	if d.Workload.Kind != "" {
		if err := d.readWorkload(ctx, client, of); err != nil {
			return DNS{}, err
		}
	}
	d.Karpenter, err = readKarpenter(ctx, client, objects, of)
	return d, err
}

// readWorkload reads what belongs to the workload.
func (d *DNS) readWorkload(ctx context.Context, client kubernetes.Interface, nodes nodeLabels) (err error) {
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
	budgets, err := client.PolicyV1().PodDisruptionBudgets(w.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list PodDisruptionBudgets in %s: %w", w.Namespace, err)
	}
	d.Budgets = budgets.Items
	if d.Pods, err = nodes.podsSelected(ctx, client, w.ObjectMeta, w.Selector); err == nil && w.Kind == DaemonSet {
		d.Workload.Replicas = max(w.Replicas, len(d.Pods))
	}
	return err
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

// podsOf reads which nodes the pods of a Deployment run on. Terminating pods do not count.
func (of nodeLabels) podsOf(ctx context.Context, client kubernetes.Interface, deploy *appsv1.Deployment) ([]Pod, error) {
	return of.podsSelected(ctx, client, deploy.ObjectMeta, deploy.Spec.Selector)
}

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
