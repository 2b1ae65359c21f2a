package nodes

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// readyTimeout bounds the wait for a node after a change.
const readyTimeout = 2 * time.Minute

// Clean removes from a Node object the marks of a drain, and what a drill put there for an operator. Leftovers reports whether a
// taint or annotation with that key is left from a drain. It returns what it removed, in words.
func Clean(ctx context.Context, client kubernetes.Interface, node string, leftovers func(key string) bool) ([]string, error) {
	return update(ctx, client, node, func(n *corev1.Node) []string { return clean(n, leftovers) })
}

// RemoveLeftovers removes from a Node object what a former handler left: finalizers, owners, annotations other than Kubernetes' own, and
// changes to its original labels.
func RemoveLeftovers(ctx context.Context, client kubernetes.Interface, node string, labels map[string]string) error {
	_, err := update(ctx, client, node, func(n *corev1.Node) []string { return removeLeftovers(n, labels) })
	return err
}

// WaitRegisteredAs waits until the node has registered with the provider ID.
func WaitRegisteredAs(ctx context.Context, client kubernetes.Interface, node, providerID string) error {
	return wait.Until(ctx, readyTimeout, "node "+node+" to register as "+providerID, func(ctx context.Context) string {
		n, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		switch {
		case err != nil:
			return err.Error()
		case n.DeletionTimestamp != nil:
			return "it is being deleted"
		case n.Spec.ProviderID != providerID:
			return "it is " + n.Spec.ProviderID
		}
		return ""
	})
}

// AddLabels sets labels on a node and leaves its others. RemoveLeftovers removes them.
func AddLabels(ctx context.Context, client kubernetes.Interface, node string, labels map[string]string) error {
	_, err := update(ctx, client, node, func(n *corev1.Node) (added []string) {
		for key, value := range labels {
			if n.Labels[key] != value {
				n.Labels = With(n.Labels, key, value)
				added = append(added, key)
			}
		}
		return added
	})
	return err
}

// RemoveLabels removes labels from a node.
func RemoveLabels(ctx context.Context, client kubernetes.Interface, node string, keys []string) error {
	_, err := update(ctx, client, node, func(n *corev1.Node) (removed []string) {
		for _, key := range keys {
			if _, there := n.Labels[key]; there {
				delete(n.Labels, key)
				removed = append(removed, key)
			}
		}
		return removed
	})
	return err
}

// update updates a Node object if change changes it, and returns what change did.
// Kubernetes removes its own taints by itself.
func update(ctx context.Context, client kubernetes.Interface, name string, change func(*corev1.Node) []string) ([]string, error) {
	var repaired []string
	// A handler that still drains, or the node controller, may update it as well.
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		n, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if repaired = change(n); len(repaired) == 0 {
			return nil
		}
		_, err = client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		return err
	})
	return repaired, wrap.Errorf(err, "change node %s", name)
}

// clean removes from a Node object the marks of a drain, and what a drill put there for an
// operator. It returns which.
func clean(n *corev1.Node, leftovers func(key string) bool) []string {
	marks := func(key string) bool { return leftovers(key) || history.OperatorsKey(key) }
	repaired := readmit(n, marks)
	for key := range n.Annotations {
		if marks(key) {
			delete(n.Annotations, key)
			repaired = append(repaired, n.Name+" without annotation "+key)
		}
	}
	for key := range n.Labels {
		if history.OperatorsKey(key) || key == history.ReservationLabel {
			delete(n.Labels, key)
			repaired = append(repaired, n.Name+" without label "+key)
		}
	}
	return repaired
}

// readmit marks a node schedulable and removes the taints whose keys are leftovers. It
// returns what it did.
func readmit(n *corev1.Node, leftovers func(key string) bool) (repaired []string) {
	if n.Spec.Unschedulable {
		n.Spec.Unschedulable = false
		repaired = append(repaired, n.Name+" uncordoned")
	}
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		if leftovers(t.Key) {
			repaired = append(repaired, n.Name+" without taint "+t.Key)
			return true
		}
		return t.Key == corev1.TaintNodeUnschedulable
	})
	return repaired
}

// removeLeftovers removes from a Node object what a handler left: finalizers, owners, annotations
// other than Kubernetes' own, and changes to its original labels. It returns which.
func removeLeftovers(n *corev1.Node, labels map[string]string) []string {
	var repaired []string
	for _, f := range n.Finalizers {
		repaired = append(repaired, n.Name+" without finalizer "+f)
	}
	for _, o := range n.OwnerReferences {
		repaired = append(repaired, n.Name+" without owner "+o.Kind+" "+o.Name)
	}
	n.Finalizers, n.OwnerReferences = nil, nil
	for key := range n.Annotations {
		if domain, _, _ := strings.Cut(key, "/"); !strings.HasSuffix(domain, ".kubernetes.io") && !strings.HasSuffix(domain, ".k8s.io") {
			delete(n.Annotations, key)
			repaired = append(repaired, n.Name+" without annotation "+key)
		}
	}
	if len(labels) > 0 && !maps.Equal(n.Labels, labels) {
		n.Labels = maps.Clone(labels)
		repaired = append(repaired, n.Name+" with its original labels")
	}
	return repaired
}
