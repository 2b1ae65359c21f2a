package consent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// noticeTimeout bounds how long the handler may take from the notice until the pods are gone. A
// spot instance has two minutes.
const noticeTimeout = 3 * time.Minute

// watch waits until the handler has marked the node and every pod is gone, or the node is.
type watch struct {
	client kubernetes.Interface
	before *NodeState
	pods   []corev1.Pod
	report func(string)

	marked  bool
	left    []corev1.Pod
	reading error // why the cluster could not be read the last time
}

func (w *watch) run(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, poll, noticeTimeout, true, w.round)
	seen := fmt.Sprintf("%d of %s still on node %s", len(w.left), areIs(len(w.pods), "pod"), w.before.Name)
	if len(w.left) > 0 {
		seen += " (" + few(namesOf(w.left)) + ")"
	}
	if w.reading != nil {
		seen += "; " + w.reading.Error()
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("aborted: %s: %w", seen, ctx.Err())
	case !errors.Is(err, context.DeadlineExceeded):
		return err
	case !w.marked:
		return fmt.Errorf("%w in %s: the node is neither cordoned nor has a new NoSchedule or NoExecute taint; %s; find out whether a handler reads this queue and knows this instance: a message that is still there can be acted on later", ErrNoHandler, noticeTimeout, seen)
	}
	return fmt.Errorf("%w in %s, though the node was marked: %s", ErrNotMoved, noticeTimeout, seen)
}

func (w *watch) round(ctx context.Context) (done bool, err error) {
	n, err := w.client.CoreV1().Nodes().Get(ctx, w.before.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && n.UID != w.before.UID {
		w.report("the node is gone")
		return true, nil
	}
	if w.reading = err; err != nil {
		return false, nil
	}
	if marks := marksOf(n, w.before); len(marks) > 0 && !w.marked {
		w.marked = true
		w.report("the node is marked: " + strings.Join(marks, ", "))
	}
	on, err := podsOn(ctx, w.client, w.before.Name)
	if w.reading = err; err != nil {
		return false, nil
	}
	w.left = only(w.pods, func(p corev1.Pod) bool {
		at := slices.IndexFunc(on, func(o corev1.Pod) bool { return o.UID == p.UID })
		return at >= 0 && !finished(on[at])
	})
	return w.marked && len(w.left) == 0, nil
}

// marksOf returns in words by what a handler shows that it drains the node.
func marksOf(n *corev1.Node, before *NodeState) []string {
	var out []string
	if n.DeletionTimestamp != nil {
		out = append(out, "it is being deleted")
	}
	if n.Spec.Unschedulable && !before.Unschedulable {
		out = append(out, "cordoned")
	}
	for _, t := range n.Spec.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule && isNew(t, before) && ownerOf(t.Key) == "" {
			out = append(out, "taint "+t.ToString())
		}
	}
	return out
}

func isNew(t corev1.Taint, before *NodeState) bool {
	return !slices.ContainsFunc(before.Taints, func(b corev1.Taint) bool { return b.MatchTaint(&t) })
}

// kubernetesOwner is the owner of the taints by which Kubernetes shows conditions of a node.
const kubernetesOwner = "Kubernetes"

// ownerOf returns who else than a handler puts taints with that key on nodes; empty for a
// handler's.
func ownerOf(key string) string {
	switch {
	case strings.HasPrefix(key, "node.kubernetes.io/"), strings.HasPrefix(key, "node.cloudprovider.kubernetes.io/"):
		return kubernetesOwner
	case key == "ToBeDeletedByClusterAutoscaler", key == "DeletionCandidateOfClusterAutoscaler":
		return "the Cluster Autoscaler"
	}
	return ""
}
