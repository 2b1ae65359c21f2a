package consent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// drillAnnotation is on a node from the first change of a drill until it is put back. It holds the
// drill's Entry, so that the cluster alone is enough to put it back.
const drillAnnotation = "spotdrill.dev/drill"

// mostMarked is the longest annotation that is read, in bytes. Kubernetes allows as much for all
// annotations of an object.
const mostMarked = 256 << 10

// mark puts the drill's annotation onto the node. It is an error if another drill's is there.
func (e Entry) mark(n *corev1.Node) error {
	if n.Annotations[drillAnnotation] != "" {
		return errors.New("another drill has changed it, and has not put it back: spotdrill restore")
	}
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write the annotation %s: %w", drillAnnotation, err)
	}
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[drillAnnotation] = string(text)
	return nil
}

// markOf reads the annotation of a drill; nil if there is none.
func markOf(n *corev1.Node) (*Entry, error) {
	text := n.Annotations[drillAnnotation]
	if text == "" {
		return nil, nil //nolint:nilnil // no drill has changed it
	}
	var e Entry
	err := fmt.Errorf("it has more than %s", history.Count(mostMarked, "byte"))
	if len(text) <= mostMarked {
		err = decode([]byte(text), &e)
	}
	if err == nil {
		err = e.check()
	}
	if err == nil && (e.Node == nil || e.Node.Name != n.Name) {
		err = errors.New("it is about something else")
	}
	if err != nil {
		return nil, fmt.Errorf("the annotation %s of node %s cannot be read: %w; find out whether the node is still cordoned, then remove the annotation", drillAnnotation, n.Name, err)
	}
	return &e, nil
}

// Marked returns the drills that have changed a node of the cluster and did not put it back, by the
// annotations there, without those that are known. It finds those of other machines, and those whose
// journal is lost. An annotation that cannot be read is an error; the others are returned all the same.
func Marked(ctx context.Context, client kubernetes.Interface, c Cluster, known ...Entry) ([]Entry, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("look for drills that were not put back: list nodes: %w", err)
	}
	var out []Entry
	var errs []error
	for _, n := range list.Items {
		e, err := markOf(&n)
		if err != nil {
			errs = append(errs, err)
		} else if e != nil && !slices.ContainsFunc(known, func(k Entry) bool { return k.ID == e.ID }) {
			e.Cluster = c
			out = append(out, *e)
		}
	}
	return out, errors.Join(errs...)
}

// NotPutBack returns an error that names each drill that has changed the cluster and was not put
// back, by the journals in the folder and by the annotations of its nodes.
func NotPutBack(ctx context.Context, client kubernetes.Interface, folder string, c Cluster) error {
	pending, err := Pending(folder)
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(pending, func(e Entry) bool { return e.Cluster.UID != c.UID })
	marked, err := Marked(ctx, client, c, left...)
	errs := []error{err}
	for _, e := range append(left, marked...) {
		errs = append(errs, fmt.Errorf("a drill was not put back: %s; spotdrill restore does it, or shows that it still runs", e))
	}
	return errors.Join(errs...)
}

// handlerPrefixes are the prefixes of labels that handlers put on a node.
func handlerPrefixes() []string {
	return []string{"aws-node-termination-handler", "karpenter.sh", "spotdrill.dev"}
}

// theirs returns why a cordon is not the drill's to lift: somebody else has cordoned the node, or a
// handler has marked it since. It is empty if it is the drill's.
func (e Entry) theirs(n *corev1.Node, ofHandler bool) string {
	latest := e.At.Add(noticeTimeout + cordonLate)
	for _, by := range cordonedBy(n) {
		switch {
		case !ofHandler && by.Manager != fieldManager:
			return fmt.Sprintf("%q has cordoned it since", by.Manager)
		case ofHandler && strings.HasPrefix(by.Manager, "kubectl"):
			return fmt.Sprintf("somebody has cordoned it since, with %q", by.Manager)
		case ofHandler && by.Time != nil && by.Time.After(latest):
			return fmt.Sprintf("%q has cordoned it at %s, long after the notice", by.Manager, by.Time.UTC().Format("2006-01-02 15:04:05 UTC"))
		}
	}
	if ofHandler {
		return ""
	}
	for _, t := range n.Spec.Taints {
		if isNew(t, e.Node) && ownerOf(t.Key) != kubernetesOwner {
			return fmt.Sprintf("the taint %s has come since, so something drains it", t.ToString())
		}
	}
	for _, key := range newKeys(n.Labels, e.Node.Labels) {
		if slices.Contains(handlerPrefixes(), prefixOf(key)) {
			return fmt.Sprintf("the label %s has come since, so a handler drains it", key)
		}
	}
	return ""
}

// cordonLate is how much the clock of this machine and that of the API server may differ.
const cordonLate = 5 * time.Minute

// cordonedBy returns the field managers by whose requests the node is cordoned; none if the API
// server does not record them.
func cordonedBy(n *corev1.Node) []metav1.ManagedFieldsEntry {
	if !n.Spec.Unschedulable {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(n.ManagedFields), func(f metav1.ManagedFieldsEntry) bool {
		if f.FieldsV1 == nil {
			return true
		}
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		_ = json.NewDecoder(f.FieldsV1.GetRawReader()).Decode(&fields)
		_, has := fields.Spec["f:unschedulable"]
		return !has
	})
}

// markNode puts the drill's annotation onto its node, without anything else.
func markNode(ctx context.Context, client kubernetes.Interface, e Entry) error {
	err := amend(ctx, client, e.Node.Name, func(n *corev1.Node) error {
		if n.UID != e.Node.UID {
			return fmt.Errorf("it is another node by now, with the UID %s", n.UID)
		}
		return e.mark(n)
	})
	return wrap.Errorf(err, "mark node %s", e.Node.Name)
}
