package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/util/podutils"

	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/kind"
)

// SetInstances assigns instances to the nodes of a new cluster, by node name, as a cloud's
// controller does. A providerID can only be set once.
func (c *Cluster) SetInstances(ctx context.Context, instances map[string]string) error {
	for name, instance := range instances {
		patch := fmt.Appendf(nil, `{"spec":{"providerID":%q}}`, kind.ProviderID(kind.Zone, instance))
		if _, err := c.Clientset.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("assign instance %s to node %s: %w", instance, name, err)
		}
	}
	return c.loadNodes(ctx)
}

// loadNodes reads the nodes, but for the spare ones. A worker whose Node object is gone or being deleted has no
// instance: Restore assigns one.
func (c *Cluster) loadNodes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	list, err := c.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list nodes of cluster %s: %w", c.Name, err)
	}
	c.Nodes = nil
	for i := range list.Items {
		n := &list.Items[i]
		if _, ours := n.Labels[Label]; !ours {
			return fmt.Errorf("node %s of cluster %s lacks the label %s: spotdrill did not create this cluster", n.Name, c.Name, Label)
		}
		if _, spare := n.Labels[kind.SpareLabel]; spare {
			continue
		}
		instance := nodes.Instance(n)
		if n.DeletionTimestamp != nil {
			instance = ""
		}
		c.Nodes = append(c.Nodes, Node{Name: n.Name, Capacity: nodes.Capacity(n), Instance: instance, Zone: kind.Zone})
	}
	for i, name := range WorkerNames(c.Name) {
		if slices.ContainsFunc(c.Nodes, func(n Node) bool { return n.Name == name }) {
			continue
		}
		capacity := nodes.Spot
		if i == 0 {
			capacity = nodes.OnDemand
		}
		c.Nodes = append(c.Nodes, Node{Name: name, Capacity: capacity, Zone: kind.Zone})
	}
	slices.SortFunc(c.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	if len(c.Nodes) != len(WorkerNames(c.Name))+1 {
		return fmt.Errorf("cluster %s has %d nodes, want %d", c.Name, len(c.Nodes), len(WorkerNames(c.Name))+1)
	}
	return nil
}

// AllOurs reports whether every node of a cluster is spotdrill's own.
func AllOurs(ctx context.Context, client kubernetes.Interface) (bool, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("list nodes: %w", err)
	}
	foreign := slices.ContainsFunc(list.Items, func(n corev1.Node) bool { return n.Labels[Label] != "true" })
	return len(list.Items) > 0 && !foreign, nil
}

// nodesOf returns the nodes with a capacity.
func (c *Cluster) nodesOf(capacity string) []Node {
	var out []Node
	for _, n := range c.Nodes {
		if n.Capacity == capacity {
			out = append(out, n)
		}
	}
	return out
}

// Reclaim takes a node's instance as EC2 does at the deadline of a notice: it kills the
// container, with everything in it, without warning.
func (c *Cluster) Reclaim(ctx context.Context, node string) error {
	return wrap.Errorf(c.engine.Kill(ctx, node), "reclaim node %s", node)
}

// WaitReady waits until every node that is not virtual is Ready, has no taints but the control plane's own,
// and has a Ready kube-proxy.
func (c *Cluster) WaitReady(ctx context.Context) error {
	return wait.Until(ctx, readyTimeout, "nodes to be ready", func(ctx context.Context) string {
		list, err := c.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		running := c.withContainers(list.Items)
		for i := range running {
			if why := whyNotReady(&running[i]); why != "" {
				return why
			}
		}
		return c.whyNoProxy(ctx, len(running))
	})
}

// WaitNode waits until one node is as WaitReady requires.
func (c *Cluster) WaitNode(ctx context.Context, name string) error {
	return wait.Until(ctx, readyTimeout, "node "+name+" to be ready", func(ctx context.Context) string {
		n, err := c.Clientset.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if why := whyNotReady(n); why != "" {
			return why
		}
		pods, err := nodes.PodsOn(ctx, c.Clientset, name)
		if err != nil {
			return err.Error()
		}
		if !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Labels[appLabel] == "kube-proxy" && podutils.IsPodReady(&p) }) {
			return "its kube-proxy is not Ready"
		}
		return ""
	})
}

func whyNotReady(n *corev1.Node) string {
	if status := nodes.Ready(n); status != corev1.ConditionTrue {
		return fmt.Sprintf("node %s has Ready=%s", n.Name, status)
	}
	for _, t := range n.Spec.Taints {
		if t.Key != "node-role.kubernetes.io/control-plane" {
			return fmt.Sprintf("node %s has taint %s", n.Name, t.Key)
		}
	}
	if n.Spec.Unschedulable {
		return fmt.Sprintf("node %s is cordoned", n.Name)
	}
	return ""
}

// whyNoProxy returns how many nodes lack a Ready kube-proxy, or "". Without kube-proxy,
// queries to the cluster IP are lost, and the drill would not notice why.
func (c *Cluster) whyNoProxy(ctx context.Context, nodes int) string {
	list, err := c.Clientset.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{LabelSelector: appLabel + "=kube-proxy"})
	if err != nil {
		return err.Error()
	}
	ready := 0
	for i := range list.Items {
		if p := &list.Items[i]; !c.IsVirtual(p.Spec.NodeName) && podutils.IsPodReady(p) {
			ready++
		}
	}
	if ready != nodes {
		return fmt.Sprintf("Ready pods of kube-proxy: %d of %d", ready, nodes)
	}
	return ""
}

// Workers returns the names of the fixed and the spare workers.
func (c *Cluster) Workers() ([]string, error) {
	spares, err := c.Spares().Names()
	return append(WorkerNames(c.Name), spares...), err
}
