package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/kind"
)

// A spare worker joined the cluster once and is parked: its container runs, its kubelet
// does not, and it has no Node object. To start a kubelet takes seconds; a container that is
// made when it is needed, and joins with kubeadm, takes half a minute on two cores.

// Spares returns the names of the spare workers, parked or not.
func (c *Cluster) Spares() ([]string, error) {
	containers, err := c.provider.ListNodes(c.Name)
	if err != nil {
		return nil, fmt.Errorf("list nodes of kind cluster %s: %w", c.Name, err)
	}
	names := make([]string, len(containers))
	for i, n := range containers {
		names[i] = n.String()
	}
	return sparesAmong(c.Name, names), nil
}

// sparesAmong returns those of a cluster's containers that are spare workers, in the order
// in which kind numbers them.
func sparesAmong(cluster string, containers []string) []string {
	workers := WorkerNames(cluster)
	spares := slices.DeleteFunc(slices.Clone(containers), func(name string) bool {
		return !strings.HasPrefix(name, cluster+"-worker") || slices.Contains(workers, name)
	})
	slices.SortFunc(spares, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	return spares
}

// Parked reports whether a spare worker is parked.
func (c *Cluster) Parked(ctx context.Context, spare string) (bool, error) {
	if c.isVirtual(spare) {
		n, err := c.nodeIfAny(ctx, spare)
		return err == nil && n == nil, err
	}
	running, err := c.engine.Running(ctx, spare)
	if err != nil || !running {
		return false, err
	}
	out, err := c.engine.Exec(ctx, spare, nil, "sh", "-c", "systemctl is-active kubelet || true")
	if err != nil {
		return false, fmt.Errorf("find out whether %s is parked: %w", spare, err)
	}
	if strings.TrimSpace(out) == "active" {
		return false, nil
	}
	n, err := c.nodeIfAny(ctx, spare)
	return err == nil && n == nil, err
}

// nodeIfAny reads a Node object; it is nil if there is none.
func (c *Cluster) nodeIfAny(ctx context.Context, node string) (*corev1.Node, error) {
	n, err := c.Clientset.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read node %s: %w", node, err)
	}
	return n, nil
}

// Park makes a worker one that an instance can be launched as. Its container is started anew:
// nothing of what ran there is left. Its Node object and its pods are removed from the API.
func (c *Cluster) Park(ctx context.Context, spare string) error {
	if err := c.park(ctx, spare); err != nil {
		return fmt.Errorf("park worker %s: %w", spare, err)
	}
	return nil
}

func (c *Cluster) park(ctx context.Context, spare string) error {
	if c.isVirtual(spare) {
		return c.unregister(ctx, spare)
	}
	running, err := c.engine.Running(ctx, spare)
	if err != nil {
		return err
	}
	if running {
		// For good: the kubelet would start with the container.
		if _, err := c.engine.Exec(ctx, spare, nil, "systemctl", "disable", "--now", "kubelet"); err != nil {
			return err
		}
		if err := c.engine.Kill(ctx, spare); err != nil {
			return err
		}
	}
	if err := c.unregister(ctx, spare); err != nil {
		return err
	}
	return c.startWorker(ctx, spare)
}

// unregister removes a Node object and its pods from the API.
func (c *Cluster) unregister(ctx context.Context, node string) error {
	if err := c.deleteNode(ctx, node); err != nil {
		return err
	}
	return c.removePodsOn(ctx, node)
}

// Instance is what a spare worker becomes.
type Instance struct {
	// ID is EC2's; Zone, Type and Capacity are labels of the node, if they are not empty.
	ID, Zone, Type, Capacity string
	// CPU in thousandths of a core, Memory in bytes and Pods are the most that its pods may
	// use, as on a real instance of the type.
	CPU, Memory, Pods int64
	// MemoryTotal is all memory of the instance in bytes, of which pods may use Memory.
	MemoryTotal int64
	// PodENIs is how many pods of the instance can have a network interface of their own.
	PodENIs int64
	// Unready leaves the node without a pod network, so that it never becomes Ready.
	Unready bool
	// Labels and Taints are those that the kubelet registers with.
	Labels map[string]string
	Taints []corev1.Taint
}

// Join makes a parked worker the node of an instance. It returns when the kubelet has
// registered the node and the node has the pod network. If the kubelet does not, the error
// has its last words.
func (c *Cluster) Join(ctx context.Context, spare string, as Instance) error {
	if err := c.join(ctx, spare, as); err != nil {
		return fmt.Errorf("join instance %s as node %s: %w", as.ID, spare, err)
	}
	return nil
}

func (c *Cluster) join(ctx context.Context, spare string, as Instance) error {
	if c.isVirtual(spare) {
		return c.joinVirtual(ctx, spare, as)
	}
	host, err := c.capacity(ctx)
	if err != nil {
		return err
	}
	if err := c.limitMemory(ctx, spare, as.MemoryTotal); err != nil {
		return err
	}
	flags := kubeletFlags(as, host)
	// In a container that has just started, systemd may not answer yet.
	err = Until(ctx, readyTimeout, "its kubelet to start", func(ctx context.Context) string {
		if err := c.startKubeletAs(ctx, spare, flags...); err != nil {
			return err.Error()
		}
		return ""
	})
	if err != nil {
		return err
	}
	if err := c.registered(ctx, spare); err != nil {
		return fmt.Errorf("%w; its kubelet said last: %s", err, c.lastWords(context.WithoutCancel(ctx), spare))
	}
	if as.PodENIs > 0 {
		if err := c.advertisePodENIs(ctx, spare, as.PodENIs); err != nil {
			return err
		}
	}
	if as.Unready {
		return nil
	}
	return c.wireNew(ctx, spare)
}

// limitMemory makes a worker's kubelet see no more memory than its instance has. Karpenter reads
// what the nodes of a type have, and expects as much of the next one.
func (c *Cluster) limitMemory(ctx context.Context, spare string, bytes int64) error {
	if _, err := c.engine.Exec(ctx, spare, nil, "sh", "-ec", limitMemory, "sh", strconv.FormatInt(bytes/1024, 10)); err != nil {
		return fmt.Errorf("limit its memory: %w", err)
	}
	return nil
}

// limitMemory changes MemTotal in /proc/meminfo, which the kubelet reads, unless it is less. The
// mount ends with the container.
const limitMemory = `awk -v most="$1" '/^MemTotal:/ && $2 > most { $2 = most } { print }' /proc/meminfo > /run/meminfo
mount --bind /run/meminfo /proc/meminfo
`

// advertisePodENIs gives a node the extended resource of pods that have a network interface of
// their own, as Amazon's VPC resource controller does.
func (c *Cluster) advertisePodENIs(ctx context.Context, node string, n int64) error {
	patch := fmt.Appendf(nil, `{"status":{"capacity":{%[1]q:"%[2]d"},"allocatable":{%[1]q:"%[2]d"}}}`, coredns.PodENI, n)
	_, err := c.Clientset.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("advertise %s: %w", coredns.PodENI, err)
	}
	return nil
}

// lastWords are the last lines that a node's kubelet logged.
func (c *Cluster) lastWords(ctx context.Context, node string) string {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	out, err := c.engine.Exec(ctx, node, nil, "journalctl", "--unit=kubelet", "--lines=5", "--output=cat", "--no-pager")
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(out)
}

// capacity is that of every node: all of the machine.
func (c *Cluster) capacity(ctx context.Context) (corev1.ResourceList, error) {
	n, err := c.Clientset.CoreV1().Nodes().Get(ctx, c.Name+"-control-plane", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read this machine's capacity: %w", err)
	}
	return n.Status.Capacity, nil
}

// labels are all that the node registers with.
func (as Instance) labels() map[string]string {
	labels := map[string]string{Label: "true", kind.SpareLabel: "true"}
	for key, value := range map[string]string{
		corev1.LabelTopologyRegion: kind.Region, corev1.LabelTopologyZone: as.Zone,
		corev1.LabelInstanceTypeStable: as.Type, CapacityLabel: as.Capacity,
	} {
		if value != "" {
			labels[key] = value
		}
	}
	maps.Copy(labels, as.Labels)
	return labels
}

// kubeletFlags register a node of that size and with these labels and taints. What pods may not
// use is reserved for the system: the kubelet sees all cores of the machine. An instance that is
// larger than the machine gets all of it.
func kubeletFlags(as Instance, host corev1.ResourceList) []string {
	labels := as.labels()
	var pairs, taints []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	for _, t := range as.Taints {
		taints = append(taints, fmt.Sprintf("%s=%s:%s", t.Key, t.Value, t.Effect))
	}
	cpu := max(0, host.Cpu().MilliValue()-as.CPU)
	memory := max(0, min(host.Memory().Value(), as.MemoryTotal)-as.Memory)
	return []string{
		providerID(kind.ProviderID(as.Zone, as.ID)),
		"--node-labels=" + strings.Join(pairs, ","),
		"--register-with-taints=" + strings.Join(taints, ","),
		fmt.Sprintf("--system-reserved=cpu=%s,memory=%s", resource.NewMilliQuantity(cpu, resource.DecimalSI), resource.NewQuantity(memory, resource.BinarySI)),
		fmt.Sprintf("--max-pods=%d", as.Pods),
	}
}

// End ends a node as EC2 ends a terminated instance, without warning. The Node object stays:
// the handler that terminated the instance removes it, or the cloud's node lifecycle
// controller, see Forget. One that has ended already is no error.
func (c *Cluster) End(ctx context.Context, node string) error {
	if c.isVirtual(node) {
		return c.endVirtual(ctx, node)
	}
	err := c.Reclaim(ctx, node)
	if err != nil {
		if running, unknown := c.engine.Running(ctx, node); unknown == nil && !running {
			return nil
		}
	}
	return err
}

// Forget deletes the Node object of an instance that is gone as the cloud's node lifecycle
// controller does: once the node is not Ready. It reports whether the object is gone.
func (c *Cluster) Forget(ctx context.Context, node string) (bool, error) {
	n, err := c.nodeIfAny(ctx, node)
	if err != nil || n == nil {
		return err == nil, err
	}
	if n.DeletionTimestamp == nil && readyStatus(n) != corev1.ConditionTrue {
		if err := c.Clientset.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("delete node %s, whose instance is gone: %w", node, err)
		}
	}
	return false, nil
}
