// Package nodes is about Node objects and the pods on them, in any cluster: what they show, and what an operator does to them
// through the API.
package nodes

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Capacities of a node.
const (
	ControlPlane = history.ControlPlane
	OnDemand     = history.OnDemand
	Spot         = history.Spot
)

// CapacityLabel is Karpenter's well-known label for the capacity type.
const CapacityLabel = history.CapacityLabel

// Capacity returns the capacity that a node's labels show.
func Capacity(n *corev1.Node) string {
	if _, ok := n.Labels["node-role.kubernetes.io/control-plane"]; ok {
		return ControlPlane
	}
	return n.Labels[CapacityLabel]
}

// CapacityOf returns the capacity type of a node.
func CapacityOf(ctx context.Context, client kubernetes.Interface, node string) (string, error) {
	n, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read node %s: %w", node, err)
	}
	return Capacity(n), nil
}

// Instance returns the EC2 instance id in the providerID, aws:///<zone>/<id>.
func Instance(n *corev1.Node) string {
	rest, ok := strings.CutPrefix(n.Spec.ProviderID, "aws:///")
	if !ok {
		return ""
	}
	_, id, _ := strings.Cut(rest, "/")
	return id
}

// Ready is the status of a node's condition Ready.
func Ready(n *corev1.Node) corev1.ConditionStatus {
	for _, cond := range n.Status.Conditions {
		if cond.Type == corev1.NodeReady {
			return cond.Status
		}
	}
	return corev1.ConditionUnknown
}

// Size is how many nodes the cluster has, and how many cores they have together.
func Size(ctx context.Context, client kubernetes.Interface) (nodes, cores int, err error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, 0, fmt.Errorf("list nodes: %w", err)
	}
	milli := int64(0)
	for i := range list.Items {
		milli += list.Items[i].Status.Capacity.Cpu().MilliValue()
	}
	return len(list.Items), int((milli + 999) / 1000), nil
}

// Get reads a Node object; it is nil if there is none.
func Get(ctx context.Context, client kubernetes.Interface, node string) (*corev1.Node, error) {
	n, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read node %s: %w", node, err)
	}
	return n, nil
}
