package consent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldManager is the name under which the API server keeps what spotdrill changed.
const fieldManager = "spotdrill"

// conflictTries is how many times a patch is made again because the node was changed meanwhile.
// The last wait is about five seconds.
const conflictTries = 10

// NodeState is a node as it was before a drill.
type NodeState struct {
	Name          string         `json:"name"`
	UID           types.UID      `json:"uid"`
	Unschedulable bool           `json:"unschedulable"`
	Taints        []corev1.Taint `json:"taints,omitempty"`
	Labels        []string       `json:"labels,omitempty"`      // their keys, sorted
	Annotations   []string       `json:"annotations,omitempty"` // their keys, sorted
}

func stateOf(n *corev1.Node) *NodeState {
	return &NodeState{
		Name: n.Name, UID: n.UID, Unschedulable: n.Spec.Unschedulable,
		Taints: n.Spec.Taints, Labels: slices.Sorted(maps.Keys(n.Labels)), Annotations: slices.Sorted(maps.Keys(n.Annotations)),
	}
}

// amend patches a node by what edit changes in it. The patch applies only to the version that edit
// saw; if the node was changed meanwhile, edit sees it again.
func amend(ctx context.Context, client kubernetes.Interface, node string, edit func(*corev1.Node) error) error {
	backoff := wait.Backoff{Steps: conflictTries, Duration: 10 * time.Millisecond, Factor: 2, Jitter: 0.1}
	return retry.RetryOnConflict(backoff, func() error {
		n, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		seen := n.DeepCopy()
		if err := edit(n); err != nil || equality.Semantic.DeepEqual(seen, n) {
			return err
		}
		seen.UID, seen.ResourceVersion = "", "" // so that the patch names them
		patch, err := ctrlclient.MergeFrom(seen).Data(n)
		if err != nil {
			return err
		}
		_, err = client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		return err
	})
}

// cordon cordons the node, as kubectl cordon does, and marks it as changed by the drill in the same
// request. If it is another node by now, or somebody else
// cordoned it, it is untouched, and changed is false.
func cordon(ctx context.Context, client kubernetes.Interface, e Entry) (changed bool, err error) {
	before := e.Node
	changed = true
	err = amend(ctx, client, before.Name, func(n *corev1.Node) error {
		changed = false
		switch {
		case n.UID != before.UID:
			return fmt.Errorf("it is another node by now, with the UID %s", n.UID)
		case n.Spec.Unschedulable:
			return errors.New("somebody else cordoned it")
		}
		if err := e.mark(n); err != nil {
			return err
		}
		changed, n.Spec.Unschedulable = true, true
		return nil
	})
	if err != nil {
		return changed, fmt.Errorf("cordon node %s: %w", before.Name, err)
	}
	return true, nil
}
