package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/kind"
)

// A spare worker joined the cluster once and is parked: its container runs, its kubelet
// does not, and it has no Node object. To start a kubelet takes seconds; a container that is
// made when it is needed, and joins with kubeadm, takes half a minute on two cores.

// Spares are the spare workers of a cluster, and the virtual nodes: what launched instances become.
type Spares struct{ c *Cluster }

// Spares are those of the cluster.
func (c *Cluster) Spares() Spares { return Spares{c} }

// Names returns the names of the spare workers, parked or not.
func (s Spares) Names() ([]string, error) {
	containers, err := s.c.provider.ListNodes(s.c.Name)
	if err != nil {
		return nil, fmt.Errorf("list nodes of kind cluster %s: %w", s.c.Name, err)
	}
	names := make([]string, len(containers))
	for i, n := range containers {
		names[i] = n.String()
	}
	return sparesAmong(s.c.Name, names), nil
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
func (s Spares) Parked(ctx context.Context, spare string) (bool, error) {
	if s.c.IsVirtual(spare) {
		n, err := nodes.Get(ctx, s.c.Clientset, spare)
		return err == nil && n == nil, err
	}
	running, err := s.c.engine.Running(ctx, spare)
	if err != nil || !running {
		return false, err
	}
	out, err := s.c.engine.Exec(ctx, spare, nil, "sh", "-c", "systemctl is-active kubelet || true")
	if err != nil {
		return false, fmt.Errorf("find out whether %s is parked: %w", spare, err)
	}
	if strings.TrimSpace(out) == "active" {
		return false, nil
	}
	n, err := nodes.Get(ctx, s.c.Clientset, spare)
	return err == nil && n == nil, err
}

// Park makes a worker one that an instance can be launched as. Its container is started again:
// nothing of what ran there is left. Its Node object and its pods are removed from the API.
func (s Spares) Park(ctx context.Context, spare string) (err error) {
	defer func() { err = wrap.Errorf(err, "park worker %s", spare) }()
	if s.c.IsVirtual(spare) {
		return s.unregister(ctx, spare)
	}
	running, err := s.c.engine.Running(ctx, spare)
	if err != nil {
		return err
	}
	if running {
		// For good: the kubelet would start with the container.
		if _, err := s.c.engine.Exec(ctx, spare, nil, "systemctl", "disable", "--now", "kubelet"); err != nil {
			return err
		}
		if err := s.c.engine.Kill(ctx, spare); err != nil {
			return err
		}
	}
	if err := s.unregister(ctx, spare); err != nil {
		return err
	}
	return s.c.startWorker(ctx, spare)
}

// unregister removes a Node object and its pods from the API.
func (s Spares) unregister(ctx context.Context, node string) error {
	if err := s.c.deleteNode(ctx, node); err != nil {
		return err
	}
	return nodes.RemovePodsOn(ctx, s.c.Clientset, node)
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
func (s Spares) Join(ctx context.Context, spare string, as Instance) (err error) {
	defer func() { err = wrap.Errorf(err, "join instance %s as node %s", as.ID, spare) }()
	if s.c.IsVirtual(spare) {
		return s.joinVirtual(ctx, map[string]Instance{spare: as})
	}
	host, err := s.capacity(ctx)
	if err != nil {
		return err
	}
	if err := s.limitMemory(ctx, spare, as.MemoryTotal); err != nil {
		return err
	}
	flags := kubeletFlags(as, host)
	// In a container that has just started, systemd may not answer yet.
	err = wait.Until(ctx, readyTimeout, "its kubelet to start", func(ctx context.Context) string {
		if err := s.c.startKubeletAs(ctx, spare, flags...); err != nil {
			return err.Error()
		}
		return ""
	})
	if err != nil {
		return err
	}
	if err := s.c.registered(ctx, spare); err != nil {
		return fmt.Errorf("%w; the last line of its kubelet: %s", err, s.lastWords(context.WithoutCancel(ctx), spare))
	}
	if as.PodENIs > 0 {
		if err := s.advertisePodENIs(ctx, spare, as.PodENIs); err != nil {
			return err
		}
	}
	if as.Unready {
		return nil
	}
	return s.c.addToNetwork(ctx, spare)
}

// limitMemory makes a worker's kubelet see no more memory than its instance has. Karpenter reads
// what the nodes of a type have, and expects as much of the next one.
func (s Spares) limitMemory(ctx context.Context, spare string, bytes int64) error {
	_, err := s.c.engine.Exec(ctx, spare, nil, "sh", "-ec", limitMemory, "sh", strconv.FormatInt(bytes/1024, 10))
	return wrap.Errorf(err, "limit its memory")
}

// limitMemory changes MemTotal in /proc/meminfo, which the kubelet reads, unless it is less. The
// mount ends with the container.
const limitMemory = `awk -v most="$1" '/^MemTotal:/ && $2 > most { $2 = most } { print }' /proc/meminfo > /run/meminfo
mount --bind /run/meminfo /proc/meminfo
`

// advertisePodENIs gives a node the extended resource of pods that have a network interface of
// their own, as Amazon's VPC resource controller does.
func (s Spares) advertisePodENIs(ctx context.Context, node string, n int64) error {
	patch := fmt.Appendf(nil, `{"status":{"capacity":{%[1]q:"%[2]d"},"allocatable":{%[1]q:"%[2]d"}}}`, coredns.PodENI, n)
	_, err := s.c.Clientset.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return wrap.Errorf(err, "advertise %s", coredns.PodENI)
}

// answerTimeout bounds the reading of a kubelet's log.
const answerTimeout = 5 * time.Second

// lastWords are the last lines that a node's kubelet logged.
func (s Spares) lastWords(ctx context.Context, node string) string {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	out, err := s.c.engine.Exec(ctx, node, nil, "journalctl", "--unit=kubelet", "--lines=5", "--output=cat", "--no-pager")
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(out)
}

// capacity is that of every node: all of the machine.
func (s Spares) capacity(ctx context.Context) (corev1.ResourceList, error) {
	n, err := s.c.Clientset.CoreV1().Nodes().Get(ctx, s.c.Name+"-control-plane", metav1.GetOptions{})
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
		corev1.LabelInstanceTypeStable: as.Type, nodes.CapacityLabel: as.Capacity,
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
// controller, see DeleteNode. One that has ended already is no error.
func (s Spares) End(ctx context.Context, node string) error {
	if s.c.IsVirtual(node) {
		return s.endVirtual(ctx, node)
	}
	err := s.c.Reclaim(ctx, node)
	if err != nil {
		if running, unknown := s.c.engine.Running(ctx, node); unknown == nil && !running {
			return nil
		}
	}
	return err
}

// DeleteNode deletes the Node object of an instance that is gone as the cloud's node lifecycle
// controller does: once the node is not Ready. It reports whether the object is gone.
func (s Spares) DeleteNode(ctx context.Context, node string) (bool, error) {
	n, err := nodes.Get(ctx, s.c.Clientset, node)
	if err != nil || n == nil {
		return err == nil, err
	}
	if n.DeletionTimestamp == nil && nodes.Ready(n) != corev1.ConditionTrue {
		if err := s.c.Clientset.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("delete node %s, whose instance is gone: %w", node, err)
		}
	}
	return false, nil
}
