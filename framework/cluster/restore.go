package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/spotdrill/spotdrill/kind"
)

// NewInstance starts an instance for a worker whose old one was given up, and
// returns its id.
type NewInstance func(ctx context.Context, worker string) (string, error)

// Restore brings every node back to an empty slate: running, wired, Ready,
// schedulable, without the taints and annotations that a drain left, and
// without pods of before. Leftovers accepts the keys of those taints and
// annotations. It returns what it had to mend, in words.
func (c *Cluster) Restore(ctx context.Context, leftovers func(key string) bool, newInstance NewInstance) ([]string, error) {
	lost, err := c.Lost(ctx)
	if err != nil {
		return nil, err
	}
	var mended []string
	var errs []error
	for i := range c.Nodes {
		what, err := c.giveBack(ctx, &c.Nodes[i], slices.Contains(lost, c.Nodes[i].Name), newInstance)
		if err != nil {
			errs = append(errs, fmt.Errorf("give node %s back: %w", c.Nodes[i].Name, err))
		}
		if what != "" {
			mended = append(mended, c.Nodes[i].Name+" "+what)
		}
	}
	if c.unwired && len(errs) == 0 {
		if err := c.Wire(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	for _, n := range c.Nodes {
		what, err := c.mend(ctx, n.Name, func(node *corev1.Node) []string { return clean(node, leftovers) })
		if err != nil {
			errs = append(errs, err)
		}
		mended = append(mended, what...)
	}
	if err := errors.Join(errs...); err != nil {
		return mended, err
	}
	return mended, c.WaitReady(ctx)
}

// Lost names the nodes whose Node object is gone or being deleted. A handler that
// does that has given the instance up as well.
func (c *Cluster) Lost(ctx context.Context) ([]string, error) {
	list, err := c.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes of cluster %s: %w", c.Name, err)
	}
	var lost []string
	for _, n := range c.Nodes {
		if !slices.ContainsFunc(list.Items, func(o corev1.Node) bool { return o.Name == n.Name && o.DeletionTimestamp == nil }) {
			lost = append(lost, n.Name)
		}
	}
	return lost, nil
}

// giveBack makes a node's kubelet run again, under a new instance where the old
// one is lost, and says what it did. Pods that were bound to the node are removed
// first, so that the kubelet that comes back finds an empty slate.
func (c *Cluster) giveBack(ctx context.Context, n *Node, lost bool, newInstance NewInstance) (string, error) {
	running, err := c.engine.Running(ctx, n.Name)
	if err != nil || running && !lost {
		return "", err
	}
	if n.Capacity == ControlPlane {
		return "", errors.New("the control plane's container is not running, or its Node object is gone")
	}
	pods, err := c.podsOn(ctx, n.Name)
	if err != nil {
		return "", err
	}
	for _, p := range pods {
		if err := c.forceDelete(ctx, p); err != nil {
			return "", err
		}
	}
	// A started container has an empty network namespace, perhaps a new address, and
	// a new Node object a new pod range: routes are written everywhere, by a later
	// Restore where this one does not come so far.
	c.unwired = true
	started := time.Now()
	if !running {
		if err := c.engine.Start(ctx, n.Name); err != nil {
			return "", err
		}
		if err := c.favour(ctx, *n); err != nil {
			return "", err
		}
	}
	if !lost {
		return "started again", c.waitHeartbeat(ctx, n.Name, started)
	}
	if err := c.replace(ctx, n, newInstance); err != nil {
		return "", err
	}
	return "given back as " + n.Instance, c.waitHeartbeat(ctx, n.Name, started)
}

// startKubelet makes a kubelet register with another providerID, its argument. A
// Node's cannot be changed, and a kubelet registers only when it starts.
const startKubelet = `sed -i "s#--provider-id=[^ \"]*#--provider-id=$1#" /var/lib/kubelet/kubeadm-flags.env
grep -q -- "--provider-id=$1" /var/lib/kubelet/kubeadm-flags.env
systemctl start kubelet`

// replace gives a running node a new instance and a new Node object.
func (c *Cluster) replace(ctx context.Context, n *Node, newInstance NewInstance) error {
	// systemd of a container that was just started may not answer yet.
	err := Until(ctx, readyTimeout, "its kubelet to stop", func(ctx context.Context) string {
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
	instance, err := newInstance(ctx, n.Name)
	if err != nil {
		return err
	}
	n.Instance = instance
	provider := kind.ProviderID(instance)
	if _, err := c.engine.Exec(ctx, n.Name, nil, "sh", "-ec", startKubelet, "sh", provider); err != nil {
		return fmt.Errorf("start its kubelet as %s: %w", provider, err)
	}
	return nil
}

// deleteNode removes a Node object, whatever finalizers it has, and waits until
// it is gone.
func (c *Cluster) deleteNode(ctx context.Context, name string) error {
	nodes := c.Clientset.CoreV1().Nodes()
	return Until(ctx, readyTimeout, "Node "+name+" to be gone", func(ctx context.Context) string {
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

// waitHeartbeat waits until the node's kubelet renewed its lease. A node killed
// within the node controller's grace period still says Ready=True, so its
// condition proves nothing.
func (c *Cluster) waitHeartbeat(ctx context.Context, node string, since time.Time) error {
	return Until(ctx, readyTimeout, "the kubelet of "+node, func(ctx context.Context) string {
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

// Disown takes off the nodes what a handler that is gone has made of them: its
// finalizers, owners and annotations, and labels that they did not have when the
// cluster was made.
func (c *Cluster) Disown(ctx context.Context) error {
	labels, err := c.originalLabels(ctx)
	if err != nil {
		return err
	}
	lost, err := c.Lost(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range c.Nodes {
		if slices.Contains(lost, n.Name) {
			continue // Restore makes it anew
		}
		_, err := c.mend(ctx, n.Name, func(node *corev1.Node) []string { return disown(node, labels[n.Name]) })
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// mend writes a Node object that change has changed something of, and returns
// what change says that this was. Kubernetes' own taints go away by themselves.
func (c *Cluster) mend(ctx context.Context, name string, change func(*corev1.Node) []string) ([]string, error) {
	var mended []string
	// A handler that still drains, or the node controller, may write as well.
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		n, err := c.Clientset.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if mended = change(n); len(mended) == 0 {
			return nil
		}
		_, err = c.Clientset.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("put node %s back: %w", name, err)
	}
	return mended, nil
}

// clean takes a drain's marks off a node object and says which.
func clean(n *corev1.Node, leftovers func(key string) bool) []string {
	var mended []string
	if n.Spec.Unschedulable {
		n.Spec.Unschedulable = false
		mended = append(mended, n.Name+" uncordoned")
	}
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		if leftovers(t.Key) {
			mended = append(mended, n.Name+" untainted of "+t.Key)
		}
		return leftovers(t.Key) || t.Key == corev1.TaintNodeUnschedulable
	})
	for key := range n.Annotations {
		if leftovers(key) {
			delete(n.Annotations, key)
			mended = append(mended, n.Name+" freed of annotation "+key)
		}
	}
	return mended
}

// disown takes off a node object what makes it a handler's: finalizers, owners,
// annotations other than Kubernetes' own, and labels that it did not have when the
// cluster was made.
func disown(n *corev1.Node, labels map[string]string) []string {
	var mended []string
	for _, f := range n.Finalizers {
		mended = append(mended, n.Name+" freed of finalizer "+f)
	}
	for _, o := range n.OwnerReferences {
		mended = append(mended, n.Name+" freed of owner "+o.Kind+" "+o.Name)
	}
	n.Finalizers, n.OwnerReferences = nil, nil
	for key := range n.Annotations {
		if domain, _, _ := strings.Cut(key, "/"); !strings.HasSuffix(domain, ".kubernetes.io") && !strings.HasSuffix(domain, ".k8s.io") {
			delete(n.Annotations, key)
			mended = append(mended, n.Name+" freed of annotation "+key)
		}
	}
	if len(labels) > 0 && !maps.Equal(n.Labels, labels) {
		n.Labels = maps.Clone(labels)
		mended = append(mended, n.Name+" labelled as it was made")
	}
	return mended
}
