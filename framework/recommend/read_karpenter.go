package recommend

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

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
