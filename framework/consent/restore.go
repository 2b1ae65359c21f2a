package consent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/spotdrill/spotdrill/scenarios"
)

// Restore puts back what Play changed, by what its journal records, and removes the journal's file.
// It returns in words what it put back, and what it left. It may be repeated, and the context must
// not be the one by which Play was aborted.
func Restore(ctx context.Context, client kubernetes.Interface, j *Journal) ([]string, error) {
	if j.entry == nil {
		return nil, nil
	}
	words, err := restore(ctx, client, *j.entry, true)
	if err != nil {
		return words, err
	}
	return words, j.done()
}

// RestorePending puts back what a drill changed whose process ended before it could, and removes the
// journal's file. It refuses another cluster, and a drill that is still played.
//
// It cannot distinguish the handler's taints from those that somebody else put on the node since
// the drill began, and removes both. It removes only labels with the prefix of such a taint, of the AWS
// Node Termination Handler, or of spotdrill's own handler.
func RestorePending(ctx context.Context, client kubernetes.Interface, e Entry) ([]string, error) {
	if e.File == "" { // found by its annotation
		return restore(ctx, client, e, false)
	}
	f, err := os.Open(e.File)
	if errors.Is(err, os.ErrNotExist) {
		return []string{"it was put back meanwhile"}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	defer func() { _ = f.Close() }()
	switch free, err := lock(f); {
	case err != nil:
		return nil, err
	case !free:
		return nil, fmt.Errorf("restore %s: another process plays it or puts it back now", e.File)
	}
	words, err := restore(ctx, client, e, false)
	if err != nil {
		return words, err
	}
	return words, remove(e.File)
}

// restore puts a node back if it has the drill's annotation. A cordon that is not the drill's stays.
// Immediately after a drill, labels that are new come from the drill;
// later, they can be anybody's.
func restore(ctx context.Context, client kubernetes.Interface, e Entry, immediately bool) (words []string, err error) {
	if err := e.Cluster.is(ctx, client); err != nil {
		return nil, err
	}
	if e.Node == nil {
		return []string{"there is nothing to put back: the controller of pod " + e.Pod + " creates another one"}, nil
	}
	before := e.Node
	err = amend(ctx, client, before.Name, func(n *corev1.Node) error {
		switch {
		case n.UID != before.UID:
			words = []string{fmt.Sprintf("there is nothing to put back: node %s is another one by now, with the UID %s", n.Name, n.UID)}
			return nil
		case n.DeletionTimestamp != nil:
			words = []string{fmt.Sprintf("node %s is left as it is: it is being deleted, and if it were schedulable, it would get pods again", n.Name)}
			return nil
		}
		switch mark, err := markOf(n); {
		case err != nil:
			return err
		case mark == nil || mark.ID != e.ID:
			words = []string{fmt.Sprintf("node %s is left as it is: it does not have this drill's annotation %s, so the drill has not changed it, or it was put back", n.Name, drillAnnotation)}
			return nil
		}
		words = nil
		delete(n.Annotations, drillAnnotation)
		seen := n.DeepCopy()
		theirs := e.theirs(n, e.Action == scenarios.SendNotice)
		switch {
		case !n.Spec.Unschedulable || before.Unschedulable:
		case theirs != "":
			words = append(words, fmt.Sprintf("node %s stays cordoned: %s", n.Name, theirs))
		default:
			n.Spec.Unschedulable = false
			words = append(words, fmt.Sprintf("node %s is uncordoned", n.Name))
		}
		if e.Action == scenarios.SendNotice {
			words = append(words, unmark(n, before, immediately)...)
		}
		if equality.Semantic.DeepEqual(seen, n) && len(words) == 0 {
			words = append(words, fmt.Sprintf("node %s needs nothing else: it is as it was", n.Name))
		}
		return nil
	})
	if apierrors.IsNotFound(err) {
		return []string{fmt.Sprintf("there is nothing to put back: node %s is gone", before.Name)}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("put back node %s: %w", before.Name, err)
	}
	return words, nil
}

// unmark removes what a handler put on the node, and returns in words what it removes and leaves.
func unmark(n *corev1.Node, before *NodeState, immediately bool) []string {
	var words []string
	var stay []corev1.Taint
	handlers := map[string]bool{"aws-node-termination-handler": true, "spotdrill.dev": true} // prefixes of keys
	for _, t := range n.Spec.Taints {
		if owner := ownerOf(t.Key); owner == "" && isNew(t, before) {
			words = append(words, fmt.Sprintf("taint %s is removed from node %s", t.ToString(), n.Name))
			handlers[prefixOf(t.Key)] = true
			continue
		} else if owner != "" && isNew(t, before) {
			words = append(words, fmt.Sprintf("taint %s of node %s is left: it belongs to %s", t.ToString(), n.Name, owner))
		}
		stay = append(stay, t)
	}
	n.Spec.Taints = stay
	delete(handlers, "") // keys without a prefix can be anybody's
	for _, key := range newKeys(n.Labels, before.Labels) {
		if !immediately && !handlers[prefixOf(key)] {
			words = append(words, fmt.Sprintf("label %s of node %s is left: it appeared since the drill began, but may be somebody else's", key, n.Name))
			continue
		}
		delete(n.Labels, key)
		handlers[prefixOf(key)] = prefixOf(key) != ""
		words = append(words, fmt.Sprintf("label %s is removed from node %s", key, n.Name))
	}
	for _, key := range newKeys(n.Annotations, before.Annotations) {
		if handlers[prefixOf(key)] {
			delete(n.Annotations, key)
			words = append(words, fmt.Sprintf("annotation %s is removed from node %s", key, n.Name))
		}
	}
	return words
}

// newKeys returns the keys that were not there before and are not of Kubernetes, sorted.
func newKeys(now map[string]string, before []string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if !slices.Contains(before, key) && !ofKubernetes(prefixOf(key)) {
			out = append(out, key)
		}
	}
	return out
}

func prefixOf(key string) string {
	prefix, _, found := strings.Cut(key, "/")
	if !found {
		return ""
	}
	return prefix
}

func ofKubernetes(prefix string) bool {
	for _, domain := range []string{"kubernetes.io", "k8s.io"} {
		if prefix == domain || strings.HasSuffix(prefix, "."+domain) {
			return true
		}
	}
	return false
}
