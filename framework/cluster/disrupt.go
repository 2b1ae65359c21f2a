package cluster

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubectl/pkg/drain"
)

// RunningDNS returns the CoreDNS pods of a node that are not terminating; of all nodes if
// node is empty.
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

// DeletePod deletes a pod gracefully, as kubectl delete does.
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

// nowhere is a label that no node has.
const nowhere = "spotdrill.dev/nowhere"

// MisplaceDNS gives CoreDNS a nodeSelector that no node satisfies. SetDNS takes it back.
func (c *Cluster) MisplaceDNS(ctx context.Context) error {
	return c.patchDNS(ctx, fmt.Sprintf(`{"spec":{"template":{"spec":{"nodeSelector":{%q:"true"}}}}}`, nowhere))
}

func (c *Cluster) patchDNS(ctx context.Context, patch string) error {
	_, err := c.Clientset.AppsV1().Deployments(dnsNamespace).Patch(ctx, dnsName, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("patch Deployment coredns with %s: %w", patch, err)
	}
	return nil
}

// evictRetry is how long kubectl drain waits after an eviction that was refused.
const evictRetry = 5 * time.Second

// DrainOptions are how a node is drained.
type DrainOptions struct {
	// Timeout is how long pods are evicted, at most 2 min; 0 for 2 min.
	Timeout time.Duration
	// Delete deletes pods without asking the Eviction API.
	Delete bool
	// Said gets the lines that kubectl prints; nil for nobody.
	Said func(line string)
}

// Drain drains a node with kubectl's own code, as kubectl drain --ignore-daemonsets
// --delete-emptydir-data --force does. It waits until the pods are gone.
func (c *Cluster) Drain(ctx context.Context, node string, o DrainOptions) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if o.Timeout == 0 {
		o.Timeout = readyTimeout
	}
	said := lines{each: o.Said}
	const ofThePod = -1 // each pod's own grace period
	drainer := &drain.Helper{
		Ctx: ctx, Client: c.Clientset, Force: true, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true,
		GracePeriodSeconds: ofThePod, Timeout: o.Timeout, DisableEviction: o.Delete, EvictErrorRetryDelay: evictRetry, Out: &said, ErrOut: &said,
	}
	n, err := c.Clientset.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("drain node %s: %w", node, err)
	}
	if err := drain.RunCordonOrUncordon(drainer, n, true); err != nil {
		return fmt.Errorf("drain node %s: cordon it: %w", node, err)
	}
	if err := drain.RunNodeDrain(drainer, node); err != nil {
		return fmt.Errorf("drain node %s: %w", node, err)
	}
	return nil
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
