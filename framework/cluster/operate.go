package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Prepare brings a part of the state on a node in which an operator leaves it: a cordon, a
// taint, a label or an annotation, as a NodePrepared event describes it. Restore removes it.
func (c *Cluster) Prepare(ctx context.Context, node string, state history.Event) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		n, err := c.Clientset.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		prepare(n, state)
		_, err = c.Clientset.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("prepare node %s with %s %s: %w", node, state.Preparation(), state.Setting().Key, err)
	}
	return nil
}

func prepare(n *corev1.Node, state history.Event) {
	setting := state.Setting()
	switch state.Preparation() {
	case history.PreparedCordon:
		n.Spec.Unschedulable = true
	case history.PreparedTaint:
		taint := corev1.Taint{Key: setting.Key, Effect: corev1.TaintEffect(setting.Value)}
		if !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
			n.Spec.Taints = append(n.Spec.Taints, taint)
		}
	case history.PreparedLabel:
		n.Labels = with(n.Labels, setting.Key, setting.Value)
	case history.PreparedAnnotation:
		n.Annotations = with(n.Annotations, setting.Key, setting.Value)
	}
}

func with[M ~map[K]V, K comparable, V any](m M, key K, value V) M {
	if m == nil {
		m = M{}
	}
	m[key] = value
	return m
}

// Uncordon marks a node schedulable, as kubectl uncordon does.
func (c *Cluster) Uncordon(ctx context.Context, node string) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"unschedulable": nil}})
	if err != nil {
		return fmt.Errorf("uncordon node %s: %w", node, err)
	}
	if _, err := c.Clientset.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("uncordon node %s: %w", node, err)
	}
	return nil
}

// Readmit marks a node schedulable and removes the taints that leftovers names. What the
// handler wrote into annotations stays, since an operator does not know it.
func (c *Cluster) Readmit(ctx context.Context, node string, leftovers func(key string) bool) error {
	_, err := c.repair(ctx, node, func(n *corev1.Node) []string { return readmit(n, leftovers) })
	return err
}

// StartAgain starts a node that Reclaim took, with the disk and the Node object that it had,
// and returns when its kubelet reports and the pod network is there.
func (c *Cluster) StartAgain(ctx context.Context, node string) error {
	started := time.Now()
	if err := c.startWorker(ctx, node); err != nil {
		return fmt.Errorf("start the instance of %s: %w", node, err)
	}
	if err := c.waitHeartbeat(ctx, node, started); err != nil {
		return err
	}
	return c.wireNew(ctx, node)
}

// DeleteNode deletes a Node object and returns when it is gone, or a finalizer of the
// handler's holds it. The kubelet goes on, and does not register again before it starts the
// next time: Restore brings the node back.
func (c *Cluster) DeleteNode(ctx context.Context, node string) error {
	err := c.Clientset.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete node %s: %w", node, err)
	}
	return Until(ctx, deletedTimeout, "Node "+node+" to be gone", func(ctx context.Context) string {
		n, err := c.Clientset.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && n.DeletionTimestamp != nil:
			return ""
		case err != nil:
			return err.Error()
		}
		return "it is still there"
	})
}

// Rejoin starts the kubelet of a node whose object was deleted again, so that it registers
// the node with that providerID, which may be empty, and wires the node: it gets another pod
// range.
func (c *Cluster) Rejoin(ctx context.Context, node, id string) error {
	if err := c.StopKubelet(ctx, node); err != nil {
		return err
	}
	if err := c.startKubeletAs(ctx, node, providerID(id)); err != nil {
		return err
	}
	return c.wireNew(ctx, node)
}

// deletedTimeout bounds the wait for the deletion of a Node object, which takes
// milliseconds.
const deletedTimeout = 20 * time.Second

// StopKubelet stops a node's kubelet. Its containers go on.
func (c *Cluster) StopKubelet(ctx context.Context, node string) error {
	if _, err := c.engine.Exec(ctx, node, nil, "systemctl", "stop", "kubelet"); err != nil {
		return fmt.Errorf("stop the kubelet of %s: %w", node, err)
	}
	return nil
}

// StartKubelet starts a node's kubelet again. It does nothing on a node that is not running.
func (c *Cluster) StartKubelet(ctx context.Context, node string) error {
	running, err := c.engine.Running(ctx, node)
	if err != nil || !running {
		return err
	}
	started := time.Now()
	if _, err := c.engine.Exec(ctx, node, nil, "systemctl", "start", "kubelet"); err != nil {
		return fmt.Errorf("start the kubelet of %s: %w", node, err)
	}
	return c.waitHeartbeat(ctx, node, started)
}
