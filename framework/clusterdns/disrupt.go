package clusterdns

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RunningPods returns the CoreDNS pods of a node that are not terminating; of all nodes if
// node is empty.
func (d *CoreDNS) RunningPods(ctx context.Context, node string) ([]corev1.Pod, error) {
	pods, err := d.pods(ctx)
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

// Restart starts a rolling restart of CoreDNS, as kubectl rollout restart does.
func (d *CoreDNS) Restart(ctx context.Context) error {
	return d.patch(ctx, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`, time.Now().Format(time.RFC3339)))
}

// Scale sets the number of CoreDNS pods.
func (d *CoreDNS) Scale(ctx context.Context, replicas int) error {
	return d.patch(ctx, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

// nowhere is a label that no node has.
const nowhere = "spotdrill.dev/nowhere"

// Misplace gives CoreDNS a nodeSelector that no node satisfies. Set takes it back.
func (d *CoreDNS) Misplace(ctx context.Context) error {
	return d.patch(ctx, fmt.Sprintf(`{"spec":{"template":{"spec":{"nodeSelector":{%q:"true"}}}}}`, nowhere))
}

func (d *CoreDNS) patch(ctx context.Context, patch string) error {
	_, err := d.client.AppsV1().Deployments(namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("patch Deployment coredns with %s: %w", patch, err)
	}
	return nil
}
