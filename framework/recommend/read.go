package recommend

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Read reads the CoreDNS Deployment of that name and what belongs to it. It only gets and
// lists: ConfigMaps, Deployments, PodDisruptionBudgets and Pods of the namespace, and
// Nodes.
func Read(ctx context.Context, client kubernetes.Interface, namespace, name string) (DNS, error) {
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
	if err := d.readPods(ctx, client); err != nil {
		return DNS{}, err
	}
	return d, nil
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
			d.Corefile, d.ConfigMap = text, namespace+"/"+cm.Name
			return nil
		}
		seen = append(seen, cm.Name)
	}
	return fmt.Errorf("no ConfigMap that Deployment %s/%s mounts has a Corefile; it mounts: %s", namespace, d.Deployment.Name, strings.Join(seen, ", "))
}

// readPods reads the capacity that each pod runs on. Terminating pods do not count.
func (d *DNS) readPods(ctx context.Context, client kubernetes.Interface) error {
	namespace := d.Deployment.Namespace
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(d.Deployment.Spec.Selector)})
	if err != nil {
		return fmt.Errorf("list the pods of Deployment %s/%s: %w", namespace, d.Deployment.Name, err)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	labels := map[string]map[string]string{} // a node that is gone has none
	for i := range nodes.Items {
		labels[nodes.Items[i].Name] = nodes.Items[i].Labels
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.DeletionTimestamp != nil || p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		of, label := CapacityOf(labels[p.Spec.NodeName])
		d.Pods = append(d.Pods, Pod{p.Name, p.Spec.NodeName, of, label})
	}
	return nil
}
