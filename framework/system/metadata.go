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

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/imds"
	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/framework/objects"
	"github.com/spotdrill/spotdrill/framework/wait"
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

// startMetadata serves the metadata of each spot node's instance, and returns when it is served.
func (s *System) startMetadata(ctx context.Context) error {
	values := map[string]string{"NAMESPACE": Namespace, "IMAGE": s.Image}
	if err := s.Cluster.Objects().Apply(ctx, manifests, "manifests/metadata.yaml", values); err != nil {
		return err
	}
	return s.Cluster.Objects().DaemonSetReady(ctx, Namespace, metadataName)
}

// stopMetadata serves it no longer, and returns when its pods are gone.
func (s *System) stopMetadata(ctx context.Context) error {
	err := s.Cluster.Clientset.AppsV1().DaemonSets(Namespace).Delete(ctx, metadataName, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove DaemonSet %s: %w", metadataName, err)
	}
	return s.Cluster.Objects().RemovePods(ctx, Namespace, metav1.ListOptions{LabelSelector: "app=" + metadataName}, "the pods of DaemonSet "+metadataName)
}

// metadataServed waits until the metadata of a node's instance is served.
func (s *System) metadataServed(ctx context.Context, node string) error {
	return wait.Until(ctx, objects.StartTimeout, "the instance metadata of "+node, func(ctx context.Context) string {
		pod, err := s.metadataPod(ctx, node)
		switch {
		case err != nil:
			return err.Error()
		case !podutils.IsPodReady(pod):
			return pod.Name + " is not Ready"
		}
		return ""
	})
}

// metadataPod is the pod that serves the metadata of a node's instance.
func (s *System) metadataPod(ctx context.Context, node string) (*corev1.Pod, error) {
	pods, err := s.Cluster.Clientset.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + metadataName, FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, fmt.Errorf("find the pod of DaemonSet %s on %s: %w", metadataName, node, err)
	}
	there := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if len(there) == 0 {
		return nil, fmt.Errorf("DaemonSet %s has no pod on %s", metadataName, node)
	}
	return &there[0], nil
}

// controlMetadata sends a request to the control of a node's metadata service.
func (s *System) controlMetadata(ctx context.Context, node, verb, path string, body any) (rest.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	pod, err := s.metadataPod(ctx, node)
	if err != nil {
		return rest.Result{}, err
	}
	request := s.Cluster.Objects().PodRequest(verb, Namespace, pod.Name, metadataPort, path)
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return rest.Result{}, fmt.Errorf("encode what the metadata of %s is to be: %w", node, err)
		}
		request = request.SetHeader("Content-Type", "application/json").Body(text)
	}
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return result, fmt.Errorf("%s %s of the instance metadata of %s: %w", verb, path, node, err)
	}
	return result, nil
}

// Announce sets what the metadata of a node's instance announces.
func (s *System) Announce(ctx context.Context, node string, a imds.Announced) error {
	_, err := s.controlMetadata(ctx, node, http.MethodPut, "announced", a)
	return err
}

// FailMetadata begins a fault of a node's metadata service.
func (s *System) FailMetadata(ctx context.Context, node string, f fault.Fault) error {
	_, err := s.controlMetadata(ctx, node, http.MethodPost, "faults", f)
	return err
}

// MetadataFaults is what has become of the faults of a node's metadata service since ClearMetadata.
func (s *System) MetadataFaults(ctx context.Context, node string) ([]imds.Happened, error) {
	return recordedAt[imds.Happened](ctx, s, node, "faults")
}

// MetadataRequests are the requests to a node's metadata service since ClearMetadata.
func (s *System) MetadataRequests(ctx context.Context, node string) ([]imds.Request, error) {
	return recordedAt[imds.Request](ctx, s, node, "requests")
}

// recordedAt is what a node's metadata service has recorded of one kind.
func recordedAt[T any](ctx context.Context, s *System, node, path string) ([]T, error) {
	result, err := s.controlMetadata(ctx, node, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	text, err := result.Raw()
	if err != nil {
		return nil, fmt.Errorf("read the %s of the metadata of %s: %w", path, node, err)
	}
	var out []T
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("read the %s of the metadata of %s: %w", path, node, err)
	}
	return out, nil
}

// ClearMetadata ends what is announced, every fault, and the record of the requests. A node that is
// down is left out: its service ends with it. One that does not answer is an error, and keeps no
// other from being cleared.
func (s *System) ClearMetadata(ctx context.Context) error {
	down, err := s.Cluster.Down(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range s.Cluster.Nodes {
		if n.Capacity != nodes.Spot || slices.Contains(down, n.Name) {
			continue
		}
		err := s.Announce(ctx, n.Name, imds.Announced{})
		for _, path := range []string{"faults", "requests"} {
			if err == nil {
				_, err = s.controlMetadata(ctx, n.Name, http.MethodDelete, path, nil)
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
