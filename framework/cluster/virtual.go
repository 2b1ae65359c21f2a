package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// TolerateVirtual lets a pod run on virtual nodes.
func TolerateVirtual() corev1.Toleration {
	return corev1.Toleration{Key: kwokKey, Operator: corev1.TolerationOpExists}
}

// VirtualLabel marks the Node objects of virtual nodes.
const VirtualLabel = "spotdrill.dev/virtual"

// LaneLabel has, on the virtual nodes of a lane and on the namespaces of its drills, the lane's name.
const LaneLabel = "spotdrill.dev/lane"

// Lane is the same cluster with virtual nodes in place of its spot workers. It has none before NextNodes and JoinLane.
func (c *Cluster) Lane(name string) *Cluster {
	lane := &Cluster{
		Name: c.Name, Network: c.Network, Config: c.Config, Clientset: c.Clientset, API: c.API, Token: c.Token,
		engine: c.engine, provider: c.provider, lane: name, staticFree: true,
	}
	lane.Nodes = slices.DeleteFunc(slices.Clone(c.Nodes), func(n Node) bool { return n.Capacity == nodes.Spot })
	return lane
}

// NextNodes names n virtual nodes of a lane as none was named before: what a handler still does to the last drill's nodes finds
// none of them.
func (c *Cluster) NextNodes(n int) []string {
	names := make([]string, n)
	for i := range names {
		c.named++
		names[i] = fmt.Sprintf("%s-%s-%d", c.virtualPrefix(), c.lane, c.named)
	}
	return names
}

// JoinLane gives the lane virtual nodes of these instances, by the names of NextNodes, in place of those that it had. kwok
// must run.
func (c *Cluster) JoinLane(ctx context.Context, instances map[string]string) error {
	c.Nodes = slices.DeleteFunc(c.Nodes, func(n Node) bool { return c.IsVirtual(n.Name) })
	if err := c.Spares().RemoveVirtual(ctx); err != nil {
		return err
	}
	joined, err := c.Spares().JoinFleet(ctx, instances)
	c.Nodes = append(c.Nodes, joined...)
	return err
}

// VirtualNames returns the names of n virtual nodes.
func (s Spares) VirtualNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", s.c.virtualPrefix(), i+1)
	}
	return names
}

func (c *Cluster) virtualPrefix() string { return c.Name + "-virtual" }

// IsVirtual reports whether a name is that of a virtual node.
func (c *Cluster) IsVirtual(node string) bool { return strings.HasPrefix(node, c.virtualPrefix()) }

// withContainers are those of the nodes that are not virtual.
func (c *Cluster) withContainers(nodes []corev1.Node) []corev1.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n corev1.Node) bool { return c.IsVirtual(n.Name) })
}

// joinVirtual makes virtual nodes of instances, by the nodes' names, and returns when kwok has made all of them Ready.
// Pods run there only if they tolerate kwok's taint.
func (s Spares) joinVirtual(ctx context.Context, instances map[string]Instance) error {
	names := slices.Sorted(maps.Keys(instances))
	if _, err := onEach(names, func(name *string) ([]string, error) {
		return nil, s.registerVirtual(ctx, *name, instances[*name])
	}); err != nil {
		return err
	}
	err := wait.Until(ctx, readyTimeout, fmt.Sprintf("%d virtual nodes to be Ready", len(names)), func(ctx context.Context) string {
		return s.whyVirtualNotReady(ctx, names)
	})
	if err != nil {
		return err
	}
	_, err = onEach(names, func(name *string) ([]string, error) {
		return nil, s.sizeVirtual(ctx, *name, instances[*name])
	})
	return err
}

// registerVirtual creates the Node object of an instance.
func (s Spares) registerVirtual(ctx context.Context, name string, as Instance) error {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: as.labels(), Annotations: map[string]string{kwokKey: kwokValue}},
		Spec: corev1.NodeSpec{
			ProviderID: kind.ProviderID(as.Zone, as.ID),
			Taints:     append([]corev1.Taint{{Key: kwokKey, Value: kwokValue, Effect: corev1.TaintEffectNoSchedule}}, as.Taints...),
		},
	}
	n.Labels[VirtualLabel], n.Labels[corev1.LabelHostname] = "true", name
	if s.c.lane != "" {
		n.Labels[LaneLabel] = s.c.lane
	}
	_, err := s.c.Clientset.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	return wrap.Errorf(err, "create the Node object of virtual node %s", name)
}

// whyVirtualNotReady is which of the virtual nodes is not Ready, or "".
func (s Spares) whyVirtualNotReady(ctx context.Context, names []string) string {
	list, err := s.c.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: VirtualLabel})
	if err != nil {
		return err.Error()
	}
	ready := map[string]bool{}
	for i := range list.Items {
		n := &list.Items[i]
		// The scheduler passes a node over as long as it has the taint, also one that is Ready.
		ready[n.Name] = nodes.Ready(n) == corev1.ConditionTrue && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
	}
	if i := slices.IndexFunc(names, func(name string) bool { return !ready[name] }); i >= 0 {
		return names[i] + " is not Ready, or has the taint of a node that is not"
	}
	return ""
}

// sizeVirtual gives a node the size of its instance: kwok has given it one of its own.
func (s Spares) sizeVirtual(ctx context.Context, node string, as Instance) error {
	allocatable := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(as.CPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(as.Memory, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(as.Pods, resource.DecimalSI),
	}
	capacity := allocatable.DeepCopy()
	capacity[corev1.ResourceMemory] = *resource.NewQuantity(as.MemoryTotal, resource.BinarySI)
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": capacity, "allocatable": allocatable}})
	if err != nil {
		return fmt.Errorf("encode the size of virtual node %s: %w", node, err)
	}
	_, err = s.c.Clientset.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return wrap.Errorf(err, "set the size of virtual node %s", node)
}

// JoinFleet makes spot nodes of instances, by the names of VirtualNames, and returns when they are Ready. kwok must run.
func (s Spares) JoinFleet(ctx context.Context, instances map[string]string) ([]Node, error) {
	as, out := map[string]Instance{}, []Node{}
	for name, id := range instances {
		const gib = 1 << 30
		as[name] = Instance{ID: id, Zone: kind.Zone, Type: fleetType, Capacity: nodes.Spot, CPU: 1930, Memory: 7 * gib, MemoryTotal: 8 * gib, Pods: 110}
		out = append(out, Node{Name: name, Capacity: nodes.Spot, Instance: id, Zone: kind.Zone})
	}
	slices.SortFunc(out, func(a, b Node) int { return cmp.Or(len(a.Name)-len(b.Name), strings.Compare(a.Name, b.Name)) })
	return out, wrap.Errorf(s.joinVirtual(ctx, as), "join the fleet")
}

// fleetType is the type of the fleet's instances, as of all fixed workers.
const fleetType = "m5.large"

// SetVirtual makes so many virtual nodes part of the cluster, with so many cores each; 0 removes
// all. kwok must run.
func (s Spares) SetVirtual(ctx context.Context, nodes, cores int) error {
	if err := s.RemoveVirtual(ctx); err != nil {
		return err
	}
	instances := map[string]Instance{}
	for _, name := range s.VirtualNames(nodes) {
		const gib = 1 << 30
		instances[name] = Instance{ID: name, CPU: int64(cores) * 1000, Memory: 16 * gib, MemoryTotal: 16 * gib, Pods: 110}
	}
	return s.joinVirtual(ctx, instances)
}

// endVirtual deletes the Node object: there is no kubelet that could stop.
func (s Spares) endVirtual(ctx context.Context, name string) error {
	err := s.c.Clientset.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	return wrap.Errorf(client.IgnoreNotFound(err), "delete virtual node %s", name)
}

// ofLane selects what has the label, of a lane only its own.
func (c *Cluster) ofLane(label string) string {
	if c.lane == "" {
		return label
	}
	return label + "," + LaneLabel + "=" + c.lane
}

// RemoveVirtual removes the virtual nodes, those that an earlier run left, too; of a lane its own.
func (s Spares) RemoveVirtual(ctx context.Context) error {
	list, err := s.c.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: s.c.ofLane(VirtualLabel)})
	if err != nil {
		return fmt.Errorf("list virtual nodes: %w", err)
	}
	_, err = onEach(list.Items, func(n *corev1.Node) ([]string, error) {
		return nil, wrap.Errorf(s.unregister(ctx, n.Name), "remove virtual node %s", n.Name)
	})
	return err
}
