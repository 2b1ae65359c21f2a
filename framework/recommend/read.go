package recommend

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

// Read reads the CoreDNS Deployment of that name and what belongs to it. It only gets and
// lists: ConfigMaps, Deployments, PodDisruptionBudgets and Pods of the namespace, and
// Nodes. If the cluster serves Karpenter's API, it also lists Karpenter's Deployment and Pods
// in every namespace, its ConfigMap and its NodePools, and the Deployments and DaemonSets of the AWS
// Node Termination Handler.
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

// karpenterGroup is the group of Karpenter's API that does not depend on the cloud.
const karpenterGroup = "karpenter.sh"

// formerSettings is the ConfigMap that had Karpenter's settings before v0.33.
const formerSettings = "karpenter-global-settings"

// readKarpenter reads the Karpenter of a cluster that serves its API. If that is not permitted,
// the reason takes its place: what CoreDNS needs can be read without it.
func readKarpenter(ctx context.Context, client kubernetes.Interface, objects dynamic.Interface, nodes nodeLabels) (Karpenter, error) {
	groups, err := client.Discovery().ServerGroups()
	if err != nil {
		return Karpenter{}, fmt.Errorf("list the groups of the API: %w", err)
	}
	served := map[string][]string{} // the versions of each group
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			served[g.Name] = append(served[g.Name], v.Version)
		}
	}
	if served[karpenterGroup] == nil {
		return Karpenter{}, nil
	}
	k := Karpenter{Installed: true}
	switch err := k.read(ctx, client, objects, nodes, served); {
	case apierrors.IsForbidden(err):
		return Karpenter{Installed: true, Unread: err.Error()}, nil
	case err != nil:
		return Karpenter{}, err
	}
	return k, nil
}

func (k *Karpenter) read(ctx context.Context, client kubernetes.Interface, objects dynamic.Interface, nodes nodeLabels, served map[string][]string) error {
	list, err := client.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=karpenter"})
	if err != nil {
		return fmt.Errorf("list Karpenter's Deployment: %w", err)
	}
	if len(list.Items) == 0 {
		return nil
	}
	k.Deployment = &list.Items[0]
	if k.Pods, err = nodes.podsOf(ctx, client, k.Deployment); err != nil {
		return err
	}
	settings, err := client.CoreV1().ConfigMaps(k.Deployment.Namespace).Get(ctx, formerSettings, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read ConfigMap %s/%s: %w", k.Deployment.Namespace, formerSettings, err)
	}
	if err == nil {
		k.FormerQueue = settings.Data["aws.interruptionQueueName"]
	}
	if k.Others, err = readTerminationHandlers(ctx, client); err != nil {
		return err
	}
	if err := k.readPools(ctx, objects, served[karpenterGroup]); err != nil {
		return err
	}
	for _, kind := range removedKinds() {
		if !slices.Contains(served[kind.Group], kind.Version) {
			continue
		}
		found, err := objects.Resource(schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: kind.Resource}).List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case apierrors.IsNotFound(err): // another kind of this version is served
		case err != nil:
			return fmt.Errorf("list %s.%s: %w", kind.Resource, kind.Group, err)
		case len(found.Items) > 0:
			k.Removed = append(k.Removed, kind)
		}
	}
	return nil
}

// readPools reads the NodePools in the first version that has them: v1alpha5 had none.
func (k *Karpenter) readPools(ctx context.Context, objects dynamic.Interface, versions []string) error {
	for _, v := range []string{"v1", "v1beta1"} {
		if !slices.Contains(versions, v) {
			continue
		}
		found, err := objects.Resource(schema.GroupVersionResource{Group: karpenterGroup, Version: v, Resource: "nodepools"}).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list nodepools.%s: %w", karpenterGroup, err)
		}
		for i := range found.Items {
			var o poolObject
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Items[i].Object, &o); err != nil {
				return fmt.Errorf("read NodePool %s: %w", found.Items[i].GetName(), err)
			}
			k.Pools = append(k.Pools, o.pool())
		}
		return nil
	}
	return nil
}
