package recommend

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// The groups of Karpenter's API: that which does not depend on the cloud, and those of AWS and of Azure.
const (
	karpenterGroup    = "karpenter.sh"
	karpenterAWSGroup = "karpenter.k8s.aws"
	karpenterAzure    = "karpenter.azure.com"
)

// formerSettings is the ConfigMap that had Karpenter's settings before v0.33.
const formerSettings = "karpenter-global-settings"

// karpenterProgram is how Karpenter's controller is known.
func karpenterProgram() program {
	return program{
		images:    []string{"karpenter/controller", "*/karpenter", "*/karpenter-controller", "*/karpenter-provider-*"},
		variables: []string{"KARPENTER_SERVICE"},
		flags:     []string{"interruption-queue"},
	}
}

// servedVersions are the versions of each group of the cluster's API.
type servedVersions map[string][]string

// readKarpenter reads the Karpenter of a cluster that serves its API, and what it is that cannot be read.
func readKarpenter(ctx context.Context, client kubernetes.Interface, objects dynamic.Interface, nodes nodeLabels) (Karpenter, error) {
	groups, err := client.Discovery().ServerGroups()
	if err != nil {
		why, fatal := unread(fmt.Errorf("list the groups of the API: %w", err))
		return Karpenter{Unread: why}, fatal
	}
	served := servedVersions{}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			served[g.Name] = append(served[g.Name], v.Version)
		}
	}
	if served[karpenterGroup] == nil {
		return Karpenter{}, nil
	}
	k := Karpenter{Installed: true}
	err = k.read(ctx, client, objects, nodes, served)
	return k, err
}

// gap notes that a rule cannot be evaluated. Its error is that nothing answers.
func (k *Karpenter) gap(rule string, err error) error {
	why, fatal := unread(err)
	if why != "" {
		k.Gaps = append(k.Gaps, Gap{rule, why})
	}
	return fatal
}

func (k *Karpenter) read(ctx context.Context, client kubernetes.Interface, objects dynamic.Interface, nodes nodeLabels, served servedVersions) error {
	unlistedPools := k.readPools(ctx, objects, served[karpenterGroup])
	k.PoolsUnread, _ = unread(unlistedPools)
	if err := k.gap("nodepools-overlap", unlistedPools); err != nil {
		return err
	}
	k.Azure = served[karpenterAzure] != nil || slices.ContainsFunc(k.Pools, func(p Pool) bool { return p.ClassGroup == karpenterAzure })
	if k.Azure {
		k.Outside = "AKS node auto-provisioning"
	}
	for _, labels := range nodes {
		if labels[computeTypeLabel] == "auto" {
			k.Outside = "EKS Auto Mode"
		}
		k.Nodes = k.Nodes || labels[poolLabel] != "" || labels[formerPoolLabel] != ""
	}
	workloads, unlisted := listWorkloads(ctx, client, metav1.NamespaceAll)
	why, fatal := unread(unlisted)
	if fatal != nil {
		return fatal
	}
	workloads = slices.DeleteFunc(workloads, func(w Workload) bool { return w.Kind != DaemonSet && w.Replicas == 0 })
	if len(workloads) == 0 && k.Outside == "" {
		k.Unread = why
	}
	if err := k.find(ctx, client, workloads); err != nil || k.Workload == nil {
		return err
	}
	k.Azure = k.Azure || slices.ContainsFunc(k.container().Env, func(e corev1.EnvVar) bool { return e.Name == "ARM_SUBSCRIPTION_ID" })
	k.Region, _ = k.setting("AWS_REGION")
	if regions := nodes.regions(); k.Region == "" && len(regions) == 1 {
		k.Region = regions[0]
	}
	if why != "" {
		k.Gaps = append(k.Gaps, Gap{"one-interruption-handler", why})
	}
	var err error
	k.Pods, err = nodes.podsSelected(ctx, client, k.Workload.ObjectMeta, k.Workload.Selector)
	if err := k.gap("karpenter-off-its-own-nodes", err); err != nil {
		return err
	}
	if err := k.readFormerQueue(ctx, client); err != nil {
		return err
	}
	if k.Others, err = readTerminationHandlers(ctx, client, workloads, k.queue()); err != nil {
		return err
	}
	if err := k.readClasses(ctx, objects, served[karpenterAWSGroup]); err != nil {
		return err
	}
	return k.gap("karpenter-removed-apis", k.readRemoved(ctx, objects, served))
}

// readFormerQueue reads the queue in the ConfigMap of earlier versions.
func (k *Karpenter) readFormerQueue(ctx context.Context, client kubernetes.Interface) error {
	settings, err := client.CoreV1().ConfigMaps(k.Workload.Namespace).Get(ctx, formerSettings, metav1.GetOptions{})
	switch {
	case err == nil:
		k.FormerQueue = settings.Data["aws.interruptionQueueName"]
	case !apierrors.IsNotFound(err):
		k.FormerUnread, err = unread(fmt.Errorf("read ConfigMap %s/%s: %w", k.Workload.Namespace, formerSettings, err))
		return err
	}
	return nil
}

// find finds Karpenter by its image, its settings or the label of its chart, or else by the right to
// create NodeClaims.
func (k *Karpenter) find(ctx context.Context, client kubernetes.Interface, workloads []Workload) error {
	found := func(is func(Workload) *corev1.Container) error {
		for i := range workloads {
			if c := is(workloads[i]); c != nil && workloads[i].Kind != DaemonSet {
				k.Workload, k.controller = &workloads[i], c.Name
				return resolve(ctx, client, workloads[i].Namespace, k.container())
			}
		}
		return nil
	}
	controller := karpenterProgram()
	if err := found(controller.in); err != nil || k.Workload != nil {
		return err
	}
	controller.label = "karpenter"
	if err := found(func(w Workload) *corev1.Container {
		if controller.in(w) == nil {
			return nil
		}
		return containerOf(&w.Template.Spec, "controller")
	}); err != nil || k.Workload != nil {
		return err
	}
	rights, err := readRights(ctx, client)
	if err != nil {
		return err
	}
	return found(func(w Workload) *corev1.Container {
		if !rights.may(w, "create", karpenterGroup, "nodeclaims") {
			return nil
		}
		return containerOf(&w.Template.Spec, "controller")
	})
}

// readRemoved finds objects of removed APIs.
func (k *Karpenter) readRemoved(ctx context.Context, objects dynamic.Interface, served servedVersions) error {
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

// NodeClass is an EC2NodeClass.
type NodeClass struct {
	Name string
	Tags map[string]string // of its instances
}

// readClasses reads the EC2NodeClasses. Only few rules need them, so that the reason takes their place
// if they may not be read.
func (k *Karpenter) readClasses(ctx context.Context, objects dynamic.Interface, versions []string) error {
	k.ClassesUnread = "the cluster serves no EC2NodeClass"
	for _, v := range []string{"v1", "v1beta1"} {
		if !slices.Contains(versions, v) {
			continue
		}
		found, err := objects.Resource(schema.GroupVersionResource{Group: karpenterAWSGroup, Version: v, Resource: "ec2nodeclasses"}).List(ctx, metav1.ListOptions{})
		if err != nil {
			k.ClassesUnread, err = unread(err)
			return err
		}
		k.ClassesUnread = ""
		for i := range found.Items {
			var o struct {
				Spec struct {
					Tags map[string]string `json:"tags"`
				} `json:"spec"`
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Items[i].Object, &o); err != nil {
				return fmt.Errorf("read EC2NodeClass %s: %w", found.Items[i].GetName(), err)
			}
			k.Classes = append(k.Classes, NodeClass{Name: found.Items[i].GetName(), Tags: o.Spec.Tags})
		}
		return nil
	}
	return nil
}
