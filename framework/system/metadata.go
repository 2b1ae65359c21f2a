package system

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/util/podutils"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/imds"
	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/framework/objects"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

const (
	// metadataName is the name of the DaemonSet that serves instance metadata, and the label
	// app of its pods.
	metadataName = "instance-metadata"
	// metadataPort is where drills control it.
	metadataPort = "8169"
	// metadataTimeout bounds a request to it.
	metadataTimeout = 5 * time.Second
)

// Metadata is the service of the nodes' instance metadata, which runs for handlers that read it.
type Metadata struct {
	cluster  *cluster.Cluster
	handlers *Handlers
}

// Metadata is the cluster's.
func (s *System) Metadata() Metadata { return s.Handlers.metadata() }

// Serves reports whether the metadata of a node with that capacity is served: of spot nodes, and if a
// handler gets its notices from the queue, also of on-demand ones, where it may run.
func (m Metadata) Serves(capacity string) bool {
	switch capacity {
	case nodes.Spot:
		return m.handlers.ServesMetadata()
	case nodes.OnDemand:
		return m.handlers.anywhere() != nil
	}
	return false
}

// values are those of its manifest. If a handler's pods need not have the network of their nodes, the
// answer with a token may make a hop more, as in a managed node group of EKS.
func (m Metadata) values(image string) map[string]string {
	values := map[string]string{"NAMESPACE": Namespace, "IMAGE": image, "CAPACITIES": "[" + nodes.Spot + "]", "HOPS": "1", "ACCESS_KEY": handler.Settings{}.AccessKey()}
	if i := m.handlers.anywhere(); i != nil {
		values["CAPACITIES"], values["HOPS"], values["ACCESS_KEY"] = "["+nodes.Spot+", "+nodes.OnDemand+"]", "2", m.handlers.InCluster(i).Settings.AccessKey()
	}
	return values
}

// start serves the metadata of the nodes' instances, and returns when it is served.
func (m Metadata) start(ctx context.Context, image string) error {
	if err := m.cluster.Objects().Apply(ctx, manifests, "manifests/metadata.yaml", m.values(image)); err != nil {
		return err
	}
	return m.cluster.Objects().DaemonSetReady(ctx, Namespace, metadataName)
}

// stop serves it no longer, and returns when its pods are gone.
func (m Metadata) stop(ctx context.Context) error {
	err := m.cluster.Clientset.AppsV1().DaemonSets(Namespace).Delete(ctx, metadataName, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove DaemonSet %s: %w", metadataName, err)
	}
	return m.cluster.Objects().RemovePods(ctx, Namespace, metav1.ListOptions{LabelSelector: "app=" + metadataName}, "the pods of DaemonSet "+metadataName)
}

// waitServed waits until the metadata of a node's instance is served.
func (m Metadata) waitServed(ctx context.Context, node string) error {
	return wait.Until(ctx, objects.StartTimeout, "the instance metadata of "+node, func(ctx context.Context) string {
		pod, err := m.pod(ctx, node)
		switch {
		case err != nil:
			return err.Error()
		case !podutils.IsPodReady(pod):
			return pod.Name + " is not Ready"
		}
		return ""
	})
}

// pod is the pod that serves the metadata of a node's instance.
func (m Metadata) pod(ctx context.Context, node string) (*corev1.Pod, error) {
	pods, err := m.cluster.Clientset.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + metadataName, FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, fmt.Errorf("find the pod of DaemonSet %s on %s: %w", metadataName, node, err)
	}
	there := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if len(there) == 0 {
		return nil, fmt.Errorf("DaemonSet %s has no pod on %s", metadataName, node)
	}
	return &there[0], nil
}

// control sends a request to the control of a node's metadata service.
func (m Metadata) control(ctx context.Context, node, verb, path string, body any) (rest.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	pod, err := m.pod(ctx, node)
	if err != nil {
		return rest.Result{}, err
	}
	request := m.cluster.Objects().PodRequest(verb, Namespace, pod.Name, metadataPort, path)
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return rest.Result{}, fmt.Errorf("encode what the metadata of %s is to be: %w", node, err)
		}
		request = request.SetHeader("Content-Type", "application/json").Body(text)
	}
	result := request.Do(ctx)
	err = result.Error()
	return result, wrap.Errorf(err, "%s %s of the instance metadata of %s", verb, path, node)
}

// Announce sets what the metadata of a node's instance announces.
func (m Metadata) Announce(ctx context.Context, node string, a imds.Announced) error {
	_, err := m.control(ctx, node, http.MethodPut, "announced", a)
	return err
}

// Fail begins a fault of a node's metadata service.
func (m Metadata) Fail(ctx context.Context, node string, f fault.Fault) error {
	_, err := m.control(ctx, node, http.MethodPost, "faults", f)
	return err
}

// Faults are the hits and ends of the faults of a node's metadata service since Clear.
func (m Metadata) Faults(ctx context.Context, node string) ([]imds.Happened, error) {
	return recordedAt[imds.Happened](ctx, m, node, "faults")
}

// Requests are the requests to a node's metadata service since Clear.
func (m Metadata) Requests(ctx context.Context, node string) ([]imds.Request, error) {
	return recordedAt[imds.Request](ctx, m, node, "requests")
}

// recordedAt is what a node's metadata service has recorded of one kind.
func recordedAt[T any](ctx context.Context, m Metadata, node, path string) ([]T, error) {
	result, err := m.control(ctx, node, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	text, err := result.Raw()
	if err != nil {
		return nil, fmt.Errorf("read the %s of the metadata of %s: %w", path, node, err)
	}
	var out []T
	err = json.Unmarshal(text, &out)
	return out, wrap.Errorf(err, "read the %s of the metadata of %s", path, node)
}

// Clear ends what is announced, every fault, and the record of the requests. A node that is
// down is left out: its service ends with it. One that does not answer is an error, and keeps no
// other from being cleared.
func (m Metadata) Clear(ctx context.Context) error {
	down, err := m.cluster.Down(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range m.cluster.Nodes {
		if !m.Serves(n.Capacity) || slices.Contains(down, n.Name) {
			continue
		}
		err := m.Announce(ctx, n.Name, imds.Announced{})
		for _, path := range []string{"faults", "requests"} {
			if err == nil {
				_, err = m.control(ctx, n.Name, http.MethodDelete, path, nil)
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
