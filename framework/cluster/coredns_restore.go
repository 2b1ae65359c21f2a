package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// OriginalDNS is what SetDNS changes, as it was when the cluster was made.
type OriginalDNS struct {
	Corefile   string                `json:"corefile"`
	Deployment appsv1.DeploymentSpec `json:"deployment"`
}

// ReadDNS reads what SetDNS changes, to be put back by RestoreDNS.
func (c *Cluster) ReadDNS(ctx context.Context) (OriginalDNS, error) {
	cm, err := c.Clientset.CoreV1().ConfigMaps(dnsNamespace).Get(ctx, dnsName, metav1.GetOptions{})
	if err != nil {
		return OriginalDNS{}, fmt.Errorf("read Corefile: %w", err)
	}
	deploy, err := c.Clientset.AppsV1().Deployments(dnsNamespace).Get(ctx, dnsName, metav1.GetOptions{})
	if err != nil {
		return OriginalDNS{}, fmt.Errorf("read Deployment coredns: %w", err)
	}
	return OriginalDNS{Corefile: cm.Data["Corefile"], Deployment: deploy.Spec}, nil
}

// RestoreDNS puts CoreDNS back as it was when the cluster was made and waits
// until its pods are Ready.
func (c *Cluster) RestoreDNS(ctx context.Context) error {
	original, err := c.originalDNS(ctx)
	if err != nil {
		return err
	}
	now, err := c.ReadDNS(ctx)
	if err != nil {
		return err
	}
	if same(now, original) {
		return nil
	}
	cm, err := c.Clientset.CoreV1().ConfigMaps(dnsNamespace).Get(ctx, dnsName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read Corefile: %w", err)
	}
	cm.Data["Corefile"] = original.Corefile
	if _, err := c.Clientset.CoreV1().ConfigMaps(dnsNamespace).Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("put the Corefile back: %w", err)
	}
	deploy, err := c.Clientset.AppsV1().Deployments(dnsNamespace).Get(ctx, dnsName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read Deployment coredns: %w", err)
	}
	deploy.Spec = original.Deployment
	if err := c.replaceDNS(ctx, deploy); err != nil {
		return err
	}
	return c.waitDNS(ctx, int(ptr.Deref(original.Deployment.Replicas, 1)))
}

// waitDNS waits until so many CoreDNS pods are Ready and served.
func (c *Cluster) waitDNS(ctx context.Context, replicas int) error {
	return Until(ctx, ReadyTimeout, "CoreDNS", func(ctx context.Context) string {
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

func same(a, b OriginalDNS) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// ForwardDNS turns external names to the resolver at server, so that no query
// leaves the cluster, and returns the image that CoreDNS runs from. It is part
// of making a cluster; the pods read the Corefile when they first start, or
// reload it.
func (c *Cluster) ForwardDNS(ctx context.Context, server string) (image string, err error) {
	cm, err := c.Clientset.CoreV1().ConfigMaps(dnsNamespace).Get(ctx, dnsName, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read Corefile: %w", err)
	}
	if cm.Data["Corefile"], err = WithUpstream(cm.Data["Corefile"], server); err != nil {
		return "", err
	}
	if _, err := c.Clientset.CoreV1().ConfigMaps(dnsNamespace).Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
		return "", fmt.Errorf("set Corefile: %w", err)
	}
	deploy, err := c.Clientset.AppsV1().Deployments(dnsNamespace).Get(ctx, dnsName, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read Deployment coredns: %w", err)
	}
	for _, container := range deploy.Spec.Template.Spec.Containers {
		if container.Name == dnsContainer {
			return container.Image, nil
		}
	}
	return "", fmt.Errorf("the Deployment coredns has no container named %s", dnsContainer)
}
