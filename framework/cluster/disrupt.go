package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RunningDNS are the CoreDNS pods of a node that are not on their way out; of all
// nodes where node is empty.
func (c *Cluster) RunningDNS(ctx context.Context, node string) ([]corev1.Pod, error) {
	pods, err := c.dnsPods(ctx)
	if err != nil {
		return nil, err
	}
	var out []corev1.Pod
	for _, p := range pods {
		if p.DeletionTimestamp == nil && p.Spec.NodeName != "" && (node == "" || p.Spec.NodeName == node) {
			out = append(out, p)
		}
	}
	return out, nil
}

// DeletePod deletes a pod as kubectl does: gracefully.
func (c *Cluster) DeletePod(ctx context.Context, p corev1.Pod) error {
	if err := c.Clientset.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// RestartDNS starts a rolling restart of CoreDNS, as kubectl rollout restart does.
func (c *Cluster) RestartDNS(ctx context.Context) error {
	return c.patchDNS(ctx, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`, time.Now().Format(time.RFC3339)))
}

// ScaleDNS sets the number of CoreDNS pods.
func (c *Cluster) ScaleDNS(ctx context.Context, replicas int) error {
	return c.patchDNS(ctx, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

func (c *Cluster) patchDNS(ctx context.Context, patch string) error {
	_, err := c.Clientset.AppsV1().Deployments(dnsNamespace).Patch(ctx, dnsName, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("patch Deployment coredns with %s: %w", patch, err)
	}
	return nil
}

// Drain cordons a node and evicts its pods, as kubectl drain does with
// --ignore-daemonsets, --delete-emptydir-data and --force. It does not wait until
// they are gone.
func (c *Cluster) Drain(ctx context.Context, node string) error {
	cordon := []byte(`{"spec":{"unschedulable":true}}`)
	if _, err := c.Clientset.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, cordon, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("drain node %s: cordon it: %w", node, err)
	}
	return Until(ctx, ReadyTimeout, "every pod of "+node+" to be evicted", func(ctx context.Context) string {
		pods, err := c.podsOn(ctx, node)
		if err != nil {
			return err.Error()
		}
		for i := range pods {
			p := &pods[i]
			if p.DeletionTimestamp != nil || !evictable(p) {
				continue
			}
			err := c.Clientset.PolicyV1().Evictions(p.Namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Sprintf("pod %s/%s: %v", p.Namespace, p.Name, err)
			}
		}
		return ""
	})
}
