package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// dnsState is everything that SetDNS changes.
type dnsState struct {
	Corefile     string                `json:"corefile"`
	Deployment   appsv1.DeploymentSpec `json:"deployment"`
	MinAvailable int                   `json:"minAvailable,omitempty"` // 0 without a budget
}

// presentDNS reads the current dnsState.
func (c *Cluster) presentDNS(ctx context.Context) (dnsState, error) {
	cm, deploy, err := c.readDNS(ctx)
	if err != nil {
		return dnsState{}, err
	}
	budget, err := c.dnsBudget(ctx)
	if err != nil {
		return dnsState{}, err
	}
	return dnsState{Corefile: cm.Data["Corefile"], Deployment: deploy.Spec, MinAvailable: budget}, nil
}

// RestoreDNS restores CoreDNS to the state that it had when the cluster was created, and
// waits until its pods are Ready.
func (c *Cluster) RestoreDNS(ctx context.Context) error {
	original, err := c.originalDNS(ctx)
	if err != nil {
		return err
	}
	now, err := c.presentDNS(ctx)
	if err != nil {
		return err
	}
	if same(now, original) {
		return nil
	}
	if err := c.setDNSBudget(ctx, original.MinAvailable); err != nil {
		return fmt.Errorf("restore CoreDNS: %w", err)
	}
	err = c.replaceDNS(ctx, original.Corefile, func(deploy *appsv1.Deployment) { deploy.Spec = original.Deployment })
	if err != nil {
		return fmt.Errorf("restore CoreDNS: %w", err)
	}
	return c.waitDNS(ctx, int(ptr.Deref(original.Deployment.Replicas, 1)))
}

// waitDNS waits until that many CoreDNS pods are Ready and in the EndpointSlices.
func (c *Cluster) waitDNS(ctx context.Context, replicas int) error {
	return Until(ctx, readyTimeout, "CoreDNS", func(ctx context.Context) string {
		pods, err := c.DNSPods(ctx)
		if err != nil {
			return err.Error()
		}
		if len(pods) != replicas {
			return fmt.Sprintf("%d of %d pods are Ready", len(pods), replicas)
		}
		var ips []string
		for _, p := range pods {
			ips = append(ips, p.IP)
		}
		return c.whyNotServed(ctx, ips)
	})
}

func same(a, b dnsState) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// ForwardDNS forwards external names to the resolver at server, so that no query leaves
// the cluster, and returns the image of CoreDNS. It is part of creating a cluster: the
// pods read the Corefile when they start, or reload it.
func (c *Cluster) ForwardDNS(ctx context.Context, server string) (image string, err error) {
	cm, deploy, err := c.readDNS(ctx)
	if err != nil {
		return "", err
	}
	if cm.Data["Corefile"], err = withUpstream(cm.Data["Corefile"], server); err != nil {
		return "", err
	}
	if _, err := c.Clientset.CoreV1().ConfigMaps(dnsNamespace).Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
		return "", fmt.Errorf("set Corefile: %w", err)
	}
	for _, container := range deploy.Spec.Template.Spec.Containers {
		if container.Name == dnsContainer {
			return container.Image, nil
		}
	}
	return "", fmt.Errorf("the Deployment coredns has no container named %s", dnsContainer)
}
