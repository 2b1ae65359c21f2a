package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/kind"
)

// Restore resets every node: running, with the pod network, Ready, schedulable, without
// the taints and annotations that a drain left, and without previous pods. Leftovers
// reports whether a taint or annotation with that key is left from a drain. Restore
// returns what it had to repair, in words. The lost nodes, see Lost, get new Node objects,
// with the instances that Assign gave them.
func (c *Cluster) Restore(ctx context.Context, lost []string, leftovers func(key string) bool) ([]string, error) {
	down, err := c.Down(ctx)
	if err != nil {
		return nil, err
	}
	var networkOutdated atomic.Bool
	repaired, err := onEach(c.Nodes, func(n *Node) ([]string, error) {
		what, outdated, err := c.revive(ctx, n, !slices.Contains(down, n.Name), slices.Contains(lost, n.Name))
		if outdated {
			networkOutdated.Store(true)
		}
		return what, wrap.Errorf(err, "bring node %s back", n.Name)
	})
	// If this Restore fails before it has set up the network, a later one does it.
	c.networkOutdated = c.networkOutdated || networkOutdated.Load()
	if c.networkOutdated && err == nil {
		err = c.SetUpNetwork(ctx)
	}
	cleaned, errClean := c.Clean(ctx, nil, leftovers)
	repaired = append(repaired, cleaned...)
	if err := errors.Join(err, errClean); err != nil {
		return repaired, err
	}
	err = c.WaitReady(ctx)
	// A node without a pod network never becomes Ready: the next Restore sets up all of them.
	c.networkOutdated = err != nil
	return repaired, err
}

// Clean removes from all Node objects but those of lost nodes what a drain left.
func (c *Cluster) Clean(ctx context.Context, lost []string, leftovers func(key string) bool) ([]string, error) {
	return onEach(c.Nodes, func(n *Node) ([]string, error) {
		if slices.Contains(lost, n.Name) {
			return nil, nil
		}
		return nodes.Clean(ctx, c.Clientset, n.Name, leftovers)
	})
}

// onEach does the same with all items at once, and returns the results in the order of the
// items. An error of one does not stop the others.
func onEach[T, R any](items []T, do func(*T) ([]R, error)) ([]R, error) {
	done, errs := make([][]R, len(items)), make([]error, len(items))
	var running sync.WaitGroup
	for i := range items {
		running.Go(func() { done[i], errs[i] = do(&items[i]) })
	}
	running.Wait()
	return slices.Concat(done...), errors.Join(errs...)
}

// Lost returns the names of the nodes whose Node object is gone or being deleted, and of the
// workers that registered without a providerID. A handler that deletes it considers the
// instance gone as well.
func (c *Cluster) Lost(ctx context.Context) ([]string, error) {
	list, err := c.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes of cluster %s: %w", c.Name, err)
	}
	var lost []string
	for _, n := range c.Nodes {
		if !slices.ContainsFunc(list.Items, func(o corev1.Node) bool {
			return o.Name == n.Name && o.DeletionTimestamp == nil && (n.Capacity == nodes.ControlPlane || o.Spec.ProviderID != "")
		}) {
			lost = append(lost, n.Name)
		}
	}
	return lost, nil
}

// Down returns the names of the nodes whose container does not run.
func (c *Cluster) Down(ctx context.Context) ([]string, error) {
	names := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		names[i] = n.Name
	}
	up, err := c.engine.ContainerIPs(ctx, c.Network, names...)
	if err != nil {
		return nil, fmt.Errorf("find out which nodes run: %w", err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return up[name] != "" }), nil
}

// Assign gives a worker that is lost its new instance.
func (c *Cluster) Assign(worker, instance string) {
	for i := range c.Nodes {
		if c.Nodes[i].Name == worker {
			c.Nodes[i].Instance = instance
		}
	}
}

// revive makes a node's kubelet run again, as its new instance if the Node is lost, and
// returns what it did. Pods that are bound to the node are removed first, so that the
// kubelet does not start them again. A started container has an empty network namespace
// and perhaps a new address, and a new Node object has a new pod range: outdated is set if
// all nodes need new routes.
func (c *Cluster) revive(ctx context.Context, n *Node, running, lost bool) (what []string, outdated bool, err error) {
	if running && !lost {
		return nil, false, nil
	}
	if n.Capacity == nodes.ControlPlane {
		return nil, false, errors.New("the control plane's container is not running, or its Node object is gone")
	}
	if err := nodes.RemovePodsOn(ctx, c.Clientset, n.Name); err != nil {
		return nil, false, err
	}
	started := time.Now()
	if !running {
		if err := c.startWorker(ctx, n.Name); err != nil {
			return nil, true, err
		}
	}
	if !lost {
		return []string{n.Name + " started again"}, true, c.waitHeartbeat(ctx, n.Name, started)
	}
	if err := c.replace(ctx, *n); err != nil {
		return nil, true, err
	}
	return []string{n.Name + " brought back as " + n.Instance}, true, c.registered(ctx, n.Name)
}

// RemovePodsOfLost removes the pods of the lost nodes, see Lost.
func (c *Cluster) RemovePodsOfLost(ctx context.Context) error {
	lost, err := c.Lost(ctx)
	if err != nil {
		return err
	}
	for _, node := range lost {
		if err := nodes.RemovePodsOn(ctx, c.Clientset, node); err != nil {
			return fmt.Errorf("remove the pods of %s: %w", node, err)
		}
	}
	return nil
}

// startWorker starts a worker's container, with the processor share of a worker.
func (c *Cluster) startWorker(ctx context.Context, name string) error {
	if err := c.engine.Start(ctx, name); err != nil {
		return err
	}
	return c.raiseWeight(ctx, Node{Name: name})
}

// startKubelet starts a kubelet with flags, its arguments, in the place of those of the same
// names that it had. What it registers its node with cannot be changed later, and it
// registers only when it starts. The node gets another pod range: with the configuration of
// the former one it would be Ready at once, and its first pods would get addresses to which
// no route leads.
const startKubelet = `rm -f /etc/cni/net.d/10-spotdrill.conflist
file=/var/lib/kubelet/kubeadm-flags.env
for flag; do sed -i "s#${flag%%=*}=[^ \"]* *##; s#\"\$# $flag\"#" $file; grep -q -- "$flag" $file; done
systemctl start kubelet`

// replace gives a running node a new Node object, with its instance.
func (c *Cluster) replace(ctx context.Context, n Node) error {
	// In a container that has just started, systemd may not answer yet.
	err := wait.Until(ctx, readyTimeout, "its kubelet to stop", func(ctx context.Context) string {
		if _, err := c.engine.Exec(ctx, n.Name, nil, "systemctl", "stop", "kubelet"); err != nil {
			return err.Error()
		}
		return ""
	})
	if err != nil {
		return err
	}
	if err := c.deleteNode(ctx, n.Name); err != nil {
		return err
	}
	return c.startKubeletAs(ctx, n.Name, providerID(kind.ProviderID(n.Zone, n.Instance)))
}

// providerID is the kubelet's flag for it.
func providerID(id string) string { return "--provider-id=" + id }

// startKubeletAs starts a kubelet that was stopped with some of its flags changed.
func (c *Cluster) startKubeletAs(ctx context.Context, node string, flags ...string) error {
	command := append([]string{"sh", "-ec", startKubelet, "sh"}, flags...)
	_, err := c.engine.Exec(ctx, node, nil, command...)
	return wrap.Errorf(err, "start the kubelet of %s with %s", node, strings.Join(flags, " "))
}

// deleteNode deletes a Node object, removes its finalizers, and waits until it is gone.
func (c *Cluster) deleteNode(ctx context.Context, name string) error {
	nodes := c.Clientset.CoreV1().Nodes()
	return wait.Until(ctx, readyTimeout, "Node "+name+" to be gone", func(ctx context.Context) string {
		n, err := nodes.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return ""
		case err != nil:
			return err.Error()
		case n.DeletionTimestamp == nil:
			err = nodes.Delete(ctx, name, metav1.DeleteOptions{})
		case len(n.Finalizers) > 0:
			_, err = nodes.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		}
		return fmt.Sprintf("it is still there (%v)", err)
	})
}

// waitHeartbeat waits until the node's kubelet has renewed its lease. The Ready condition
// proves nothing: it stays True for the node controller's grace period after a node was
// killed.
func (c *Cluster) waitHeartbeat(ctx context.Context, node string, since time.Time) error {
	return wait.Until(ctx, readyTimeout, "the kubelet of "+node, func(ctx context.Context) string {
		lease, err := c.Clientset.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node, metav1.GetOptions{})
		switch {
		case err != nil:
			return err.Error()
		case lease.Spec.RenewTime == nil:
			return "its lease was never renewed"
		case !lease.Spec.RenewTime.After(since):
			return "its lease was last renewed at " + lease.Spec.RenewTime.Format(time.RFC3339Nano)
		}
		return ""
	})
}

// RemoveLeftovers removes from the nodes what a former handler left: finalizers, owners and
// annotations, and changes to the labels that they had when the cluster was created.
func (c *Cluster) RemoveLeftovers(ctx context.Context) error {
	labels, err := c.originalLabels(ctx)
	if err != nil {
		return err
	}
	lost, err := c.Lost(ctx)
	if err != nil {
		return err
	}
	_, err = onEach(c.Nodes, func(n *Node) ([]string, error) {
		if slices.Contains(lost, n.Name) {
			return nil, nil // Restore creates it again
		}
		return nil, nodes.RemoveLeftovers(ctx, c.Clientset, n.Name, labels[n.Name])
	})
	return err
}
