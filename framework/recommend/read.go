package recommend

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

// Read reads the CoreDNS Deployment of that name and what belongs to it. It only gets and
// lists: ConfigMaps, Deployments, PodDisruptionBudgets and Pods of the namespace, and
// Nodes. If the cluster serves Karpenter's API, it also lists the Deployments and DaemonSets of every
// namespace, to find Karpenter and other handlers, and Karpenter's Pods, NodePools and EC2NodeClasses; it
// gets the ConfigMaps of their settings, and lists ClusterRoles and their bindings where only the rights
// of a workload show what it is.
func Read(ctx context.Context, client kubernetes.Interface, objects dynamic.Interface, namespace, name string) (DNS, error) {
	deploy, err := client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return DNS{}, fmt.Errorf("read Deployment %s/%s: %w; if CoreDNS has another name, use --namespace and --deployment", namespace, name, err)
	}
	d := DNS{Deployment: deploy}
	if err := d.readCorefile(ctx, client); err != nil {
		return DNS{}, err
	}
	budgets, err := client.PolicyV1().PodDisruptionBudgets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return DNS{}, fmt.Errorf("list PodDisruptionBudgets in %s: %w", namespace, err)
	}
	d.Budgets = budgets.Items
	nodes, size, err := readNodes(ctx, client)
	if err != nil {
		return DNS{}, err
	}
	d.Size = size
	if d.Pods, err = nodes.podsOf(ctx, client, deploy); err != nil {
		return DNS{}, err
	}
	d.Karpenter, err = readKarpenter(ctx, client, objects, nodes)
	return d, err
}

// readCorefile finds the Corefile in the ConfigMaps that the pods mount.
func (d *DNS) readCorefile(ctx context.Context, client kubernetes.Interface) error {
	namespace := d.Deployment.Namespace
	var seen []string
	for _, v := range d.Deployment.Spec.Template.Spec.Volumes {
		if v.ConfigMap == nil {
			continue
		}
		key := "Corefile"
		for _, item := range v.ConfigMap.Items {
			if item.Path == "Corefile" {
				key = item.Key
			}
		}
		cm, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, v.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read ConfigMap %s/%s: %w", namespace, v.ConfigMap.Name, err)
		}
		if text, ok := cm.Data[key]; ok {
			d.Corefile, d.ConfigMap, d.CorefileObject = text, namespace+"/"+cm.Name, cm
			return nil
		}
		seen = append(seen, cm.Name)
	}
	return fmt.Errorf("no ConfigMap that Deployment %s/%s mounts has a Corefile; it mounts: %s", namespace, d.Deployment.Name, strings.Join(seen, ", "))
}

// nodeLabels are the labels of each node, by its name. A node that is gone has none.
type nodeLabels map[string]map[string]string

func readNodes(ctx context.Context, client kubernetes.Interface) (nodeLabels, Size, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, Size{}, fmt.Errorf("list nodes: %w", err)
	}
	of := nodeLabels{}
	for i := range list.Items {
		of[list.Items[i].Name] = list.Items[i].Labels
	}
	return of, sizeOf(list.Items), nil
}

// podsOf reads which nodes the pods of a Deployment run on. Terminating pods do not count.
func (of nodeLabels) podsOf(ctx context.Context, client kubernetes.Interface, deploy *appsv1.Deployment) ([]Pod, error) {
	list, err := client.CoreV1().Pods(deploy.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(deploy.Spec.Selector)})
	if err != nil {
		return nil, fmt.Errorf("list the pods of Deployment %s/%s: %w", deploy.Namespace, deploy.Name, err)
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
			Name: p.Name, Node: p.Spec.NodeName, Capacity: capacity, Label: label,
			Pool: cmp.Or(labels[poolLabel], labels[formerPoolLabel]), Kept: p.Annotations[coredns.DoNotDisrupt] == "true",
		})
	}
	return out, nil
}
