package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/spotdrill/spotdrill/framework/wrap"
)

// stateName is the ConfigMap in kube-system with the cluster's digest and its original
// state, for later runs.
const stateName = "spotdrill-state"

// DNSState is the key of the state of CoreDNS.
const DNSState = "coredns"

// Origin is what a cluster was created from.
type Origin struct {
	// Digest identifies all of it.
	Digest string
	// Versions are those of Kubernetes and CoreDNS, in words.
	Versions string
}

// WriteState completes the creation of a cluster: a cluster without this state is never
// reused. dns is the state of its CoreDNS.
func (c *Cluster) WriteState(ctx context.Context, from Origin, dns string) error {
	labels, err := c.readLabels(ctx)
	if err != nil {
		return err
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: stateName, Namespace: metav1.NamespaceSystem},
		Data:       map[string]string{"digest": from.Digest, "versions": from.Versions, DNSState: dns, "labels": labels},
	}
	_, err = c.Clientset.CoreV1().ConfigMaps(cm.Namespace).Create(ctx, cm, metav1.CreateOptions{})
	return wrap.Errorf(err, "write the cluster's state")
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

// Origin returns what was given to WriteState. It is an error if the creation of the
// cluster was never completed.
func (c *Cluster) Origin(ctx context.Context) (Origin, error) {
	state, err := ReadState(ctx, c.Clientset)
	return Origin{Digest: state["digest"], Versions: state["versions"]}, err
}

// originalLabels returns the labels that the nodes had when the cluster was created, by
// node.
func (c *Cluster) originalLabels(ctx context.Context) (map[string]map[string]string, error) {
	state, err := ReadState(ctx, c.Clientset)
	if err != nil {
		return nil, err
	}
	labels := map[string]map[string]string{}
	err = json.Unmarshal([]byte(state["labels"]), &labels)
	return labels, wrap.Errorf(err, "parse the nodes' original labels")
}

// ReadState reads what WriteState wrote.
func ReadState(ctx context.Context, client kubernetes.Interface) (map[string]string, error) {
	cm, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, stateName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the cluster's state: %w", err)
	}
	return cm.Data, nil
}
