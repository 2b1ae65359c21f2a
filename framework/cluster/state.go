package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stateName is the ConfigMap in kube-system with the cluster's digest and its original
// state, for later runs.
const stateName = "spotdrill-state"

// WriteState completes the creation of a cluster: a cluster without this state is never
// reused. Digest identifies everything that the cluster was created from.
func (c *Cluster) WriteState(ctx context.Context, digest string) error {
	present, err := c.presentDNS(ctx)
	if err != nil {
		return err
	}
	dns, err := json.Marshal(present)
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	labels, err := c.readLabels(ctx)
	if err != nil {
		return err
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: stateName, Namespace: metav1.NamespaceSystem},
		Data:       map[string]string{"digest": digest, "coredns": string(dns), "labels": labels},
	}
	if _, err := c.Clientset.CoreV1().ConfigMaps(cm.Namespace).Create(ctx, cm, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("write the cluster's state: %w", err)
	}
	return nil
}

// readLabels returns the nodes' labels, by node, as JSON.
func (c *Cluster) readLabels(ctx context.Context) (string, error) {
	list, err := c.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list nodes of cluster %s: %w", c.Name, err)
	}
	labels := map[string]map[string]string{}
	for _, n := range list.Items {
		labels[n.Name] = n.Labels
	}
	text, err := json.Marshal(labels)
	if err != nil {
		return "", fmt.Errorf("encode state: %w", err)
	}
	return string(text), nil
}

// Digest returns the digest given to WriteState. It is an error if the creation of the
// cluster was never completed.
func (c *Cluster) Digest(ctx context.Context) (string, error) {
	state, err := c.readState(ctx)
	return state["digest"], err
}

// originalLabels returns the labels that the nodes had when the cluster was created, by
// node.
func (c *Cluster) originalLabels(ctx context.Context) (map[string]map[string]string, error) {
	state, err := c.readState(ctx)
	if err != nil {
		return nil, err
	}
	labels := map[string]map[string]string{}
	if err := json.Unmarshal([]byte(state["labels"]), &labels); err != nil {
		return nil, fmt.Errorf("parse the nodes' original labels: %w", err)
	}
	return labels, nil
}

func (c *Cluster) originalDNS(ctx context.Context) (dnsState, error) {
	var original dnsState
	state, err := c.readState(ctx)
	if err != nil {
		return original, err
	}
	if err := json.Unmarshal([]byte(state["coredns"]), &original); err != nil {
		return original, fmt.Errorf("parse CoreDNS's original settings: %w", err)
	}
	return original, nil
}

// readState reads what WriteState wrote.
func (c *Cluster) readState(ctx context.Context) (map[string]string, error) {
	cm, err := c.Clientset.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, stateName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the cluster's state: %w", err)
	}
	return cm.Data, nil
}
