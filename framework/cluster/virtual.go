package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/kind"
)

// A virtual node is a Node object without a container. kwok keeps it Ready, and reports pods
// that are bound to it as running. It takes no memory, and nothing runs there.

// What kwok knows its nodes by: https://kwok.sigs.k8s.io/docs/user/kwok-manage-nodes-and-pods/.
const (
	kwokKey   = "kwok.x-k8s.io/node"
	kwokValue = "fake"
)

// virtualLabel marks virtual nodes.
const virtualLabel = "spotdrill.dev/virtual"

// VirtualNames returns the names of n virtual nodes.
func (s Spares) VirtualNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", s.c.virtualPrefix(), i+1)
	}
	return names
}

func (c *Cluster) virtualPrefix() string { return c.Name + "-virtual" }

func (c *Cluster) isVirtual(node string) bool { return strings.HasPrefix(node, c.virtualPrefix()) }

// withContainers are those of the nodes that are not virtual.
func (c *Cluster) withContainers(nodes []corev1.Node) []corev1.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n corev1.Node) bool { return c.isVirtual(n.Name) })
}

// joinVirtual creates the Node object of an instance, and returns when kwok has made it Ready.
// Pods run there only if they tolerate kwok's taint.
func (s Spares) joinVirtual(ctx context.Context, name string, as Instance) error {
	api := s.c.Clientset.CoreV1().Nodes()
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: as.labels(), Annotations: map[string]string{kwokKey: kwokValue}},
		Spec: corev1.NodeSpec{
			ProviderID: kind.ProviderID(as.Zone, as.ID),
			Taints:     append([]corev1.Taint{{Key: kwokKey, Value: kwokValue, Effect: corev1.TaintEffectNoSchedule}}, as.Taints...),
		},
	}
	n.Labels[virtualLabel], n.Labels[corev1.LabelHostname] = "true", name
	if _, err := api.Create(ctx, n, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create its Node object: %w", err)
	}
	return wait.Until(ctx, readyTimeout, "virtual node "+name+" to be Ready", func(ctx context.Context) string {
		n, err := api.Get(ctx, name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err.Error()
		case nodes.Ready(n) != corev1.ConditionTrue:
			return "kwok has not made it Ready"
		}
		// kwok has given it a size of its own.
		n.Status.Capacity = corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(as.CPU, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(as.Memory, resource.BinarySI),
			corev1.ResourcePods:   *resource.NewQuantity(as.Pods, resource.DecimalSI),
		}
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
		n.Status.Capacity[corev1.ResourceMemory] = *resource.NewQuantity(as.MemoryTotal, resource.BinarySI)
		if _, err := api.UpdateStatus(ctx, n, metav1.UpdateOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

// SetVirtual makes so many virtual nodes part of the cluster, with so many cores each; 0 removes
// all. kwok must run.
func (s Spares) SetVirtual(ctx context.Context, nodes, cores int) error {
	if err := s.RemoveVirtual(ctx); err != nil {
		return err
	}
	names := s.VirtualNames(nodes)
	_, err := onEach(names, func(name *string) ([]string, error) {
		const gib = 1 << 30
		as := Instance{ID: *name, CPU: int64(cores) * 1000, Memory: 16 * gib, MemoryTotal: 16 * gib, Pods: 110}
		return nil, wrap.Errorf(s.joinVirtual(ctx, *name, as), "join virtual node %s", *name)
	})
	return err
}

// endVirtual deletes the Node object: there is no kubelet that could stop.
func (s Spares) endVirtual(ctx context.Context, name string) error {
	err := s.c.Clientset.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	return wrap.Errorf(client.IgnoreNotFound(err), "delete virtual node %s", name)
}

// RemoveVirtual removes the virtual nodes that an earlier run left.
func (s Spares) RemoveVirtual(ctx context.Context) error {
	list, err := s.c.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: virtualLabel})
	if err != nil {
		return fmt.Errorf("list virtual nodes: %w", err)
	}
	for _, n := range list.Items {
		if err := s.unregister(ctx, n.Name); err != nil {
			return fmt.Errorf("remove virtual node %s: %w", n.Name, err)
		}
	}
	return nil
}
