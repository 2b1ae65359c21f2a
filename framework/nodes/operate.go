package nodes

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/drain"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// Prepare brings a part of the state on a node in which an operator leaves it: a cordon, a
// taint, a label or an annotation, as a NodePrepared event describes it. Clean removes it.
func Prepare(ctx context.Context, client kubernetes.Interface, node string, state history.Event) error {
	as := fmt.Sprintf("%s %s", state.Preparation(), state.Setting().Key)
	_, err := update(ctx, client, node, func(n *corev1.Node) []string {
		prepare(n, state)
		return []string{as}
	})
	return wrap.Errorf(err, "prepare %s", as)
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
		n.Labels = With(n.Labels, setting.Key, setting.Value)
	case history.PreparedAnnotation:
		n.Annotations = With(n.Annotations, setting.Key, setting.Value)
	}
}

// With sets a value in a map, which is made if it is nil.
func With[M ~map[K]V, K comparable, V any](m M, key K, value V) M {
	if m == nil {
		m = M{}
	}
	m[key] = value
	return m
}

// Uncordon marks a node schedulable, as kubectl uncordon does.
func Uncordon(ctx context.Context, client kubernetes.Interface, node string) error {
	_, err := client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, []byte(`{"spec":{"unschedulable":null}}`), metav1.PatchOptions{})
	return wrap.Errorf(err, "uncordon node %s", node)
}

// touched is an annotation that nobody reads.
const touched = "spotdrill.dev/touched"

// Touch changes a Node object twice and leaves it as it was, but for its resourceVersion: a write that names the one before is a
// conflict.
func Touch(ctx context.Context, client kubernetes.Interface, node string) error {
	for _, value := range []string{`"true"`, "null"} {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, touched, value)
		if _, err := client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("touch node %s: %w", node, err)
		}
	}
	return nil
}

// DeletePods deletes the pods of a namespace that are on a node, with their own grace periods, as kubectl delete pod --wait=false does.
// Those of DaemonSets stay, as in a drain.
func DeletePods(ctx context.Context, client kubernetes.Interface, namespace, node string) error {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return fmt.Errorf("list the pods on node %s: %w", node, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
			continue
		}
		err := client.CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete pod %s on node %s: %w", pod.Name, node, err)
		}
	}
	return nil
}

// Readmit marks a node schedulable and removes the taints that leftovers names. What the
// handler wrote into annotations stays, since an operator does not know it.
func Readmit(ctx context.Context, client kubernetes.Interface, node string, leftovers func(key string) bool) error {
	_, err := update(ctx, client, node, func(n *corev1.Node) []string { return readmit(n, leftovers) })
	return err
}

// Delete deletes a Node object and returns when it is gone, or a finalizer of the
// handler's holds it. The kubelet goes on, and does not register again before it starts the
// next time: Restore brings the node back.
func Delete(ctx context.Context, client kubernetes.Interface, node string) error {
	err := client.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete node %s: %w", node, err)
	}
	return wait.Until(ctx, deletedTimeout, "Node "+node+" to be gone", func(ctx context.Context) string {
		n, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && n.DeletionTimestamp != nil:
			return ""
		case err != nil:
			return err.Error()
		}
		return "it is still there"
	})
}

// deletedTimeout bounds the wait for the deletion of a Node object, which takes
// milliseconds.
const deletedTimeout = 20 * time.Second

// drainTimeout bounds a drain.
const drainTimeout = 2 * time.Minute

// evictRetry is how long kubectl drain waits after an eviction that was refused.
const evictRetry = 5 * time.Second

// DrainOptions are how a node is drained.
type DrainOptions struct {
	// Timeout is how long pods are evicted, at most 2 min; 0 for 2 min.
	Timeout time.Duration
	// Delete deletes pods without asking the Eviction API.
	Delete bool
	// Print gets the lines that kubectl prints; it may be nil.
	Print func(line string)
}

// Drain drains a node with kubectl's own code, as kubectl drain --ignore-daemonsets
// --delete-emptydir-data --force does. It waits until the pods are gone.
func Drain(ctx context.Context, client kubernetes.Interface, node string, o DrainOptions) error {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	printed := lines{each: o.Print}
	const ofThePod = -1 // each pod's own grace period
	drainer := &drain.Helper{
		Ctx: ctx, Client: client, Force: true, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true,
		GracePeriodSeconds: ofThePod, Timeout: cmp.Or(o.Timeout, drainTimeout), DisableEviction: o.Delete, EvictErrorRetryDelay: evictRetry, Out: &printed, ErrOut: &printed,
	}
	n, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("drain node %s: %w", node, err)
	}
	if err := drain.RunCordonOrUncordon(drainer, n, true); err != nil {
		return fmt.Errorf("drain node %s: cordon it: %w", node, err)
	}
	return wrap.Errorf(drain.RunNodeDrain(drainer, node), "drain node %s", node)
}

// lines passes on what is written to it, line by line. It is safe for concurrent use.
type lines struct {
	each func(line string)

	mu   sync.Mutex
	rest []byte
}

func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, text...)
	for {
		line, rest, ended := bytes.Cut(l.rest, []byte("\n"))
		if !ended {
			return len(text), nil
		}
		l.rest = rest
		if line := strings.TrimSpace(string(line)); line != "" && l.each != nil {
			l.each(line)
		}
	}
}
