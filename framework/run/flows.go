package run

import (
	"context"
	"fmt"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/conntrack"
)

// startFlows records where the prober's node sends the prober's queries: it is
// there that a service's address becomes a pod's. The prober asks nothing yet.
func (r *drilling) startFlows(ctx context.Context, service netip.Addr) error {
	pod, err := r.Cluster.Clientset.CoreV1().Pods(Namespace).Get(ctx, "prober", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("find out where the prober is: %w", err)
	}
	err = r.create(ctx, "conntrack.yaml", map[string]string{
		"NAMESPACE": Namespace, "IMAGE": r.image, "NODE": pod.Spec.NodeName,
		"CLIENT_IP": pod.Status.PodIP, "SERVICE_IP": service.String(),
	})
	if err != nil {
		return err
	}
	return r.podReady(ctx, "conntrack")
}

// collectFlows takes the record into the history, once the prober is silent.
func (r *drilling) collectFlows(ctx context.Context) error {
	body, err := r.get(ctx, "conntrack", "flows")
	if err != nil {
		return err
	}
	defer body.Close()
	return conntrack.Collect(body, r.rec)
}
