package handler

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// Installation is a handler that is installed in a cluster, or is to be.
type Installation struct {
	Description
	// Settings are what it must know about the cluster. They name its namespace and its credentials,
	// which are its own.
	Settings  Settings
	Clientset kubernetes.Interface
	Config    *rest.Config // of clients for objects of any kind
}

// running is the handler's Deployment or DaemonSet in the cluster.
type running struct {
	client          kubernetes.Interface
	daemonSet       bool
	namespace, name string
	workers         int // that a DaemonSet must run on, at least
}

func (h Installation) running() running {
	namespace, name, _ := strings.Cut(h.Workload(), "/")
	return running{h.Clientset, h.OnEachNode(), namespace, name, max(1, len(h.Settings.Workers))}
}

// String is "Deployment NAMESPACE/NAME".
func (r running) String() string {
	kind := "Deployment"
	if r.daemonSet {
		kind = "DaemonSet"
	}
	return kind + " " + r.namespace + "/" + r.name
}

// workload is what a Deployment and a DaemonSet have in common.
type workload struct {
	selector *metav1.LabelSelector
	template corev1.PodTemplateSpec
	// available reports whether all pods are, and are of this template.
	available bool
	state     []string // for errors
}

func (r running) read(ctx context.Context) (workload, error) {
	if r.daemonSet {
		d, err := r.client.AppsV1().DaemonSets(r.namespace).Get(ctx, r.name, metav1.GetOptions{})
		if err != nil {
			return workload{}, fmt.Errorf("read %s: %w", r, err)
		}
		want, s := d.Status.DesiredNumberScheduled, d.Status
		return workload{
			d.Spec.Selector, d.Spec.Template,
			s.ObservedGeneration >= d.Generation && want >= int32(r.workers) && s.UpdatedNumberScheduled == want && s.NumberAvailable == want,
			[]string{fmt.Sprintf("of %s that it is for, it is available on %d, and up to date on %d; the handler's are %s", history.Count(want, "node"), s.NumberAvailable, s.UpdatedNumberScheduled, history.Count(r.workers, "worker"))},
		}, nil
	}
	d, err := r.client.AppsV1().Deployments(r.namespace).Get(ctx, r.name, metav1.GetOptions{})
	if err != nil {
		return workload{}, fmt.Errorf("read %s: %w", r, err)
	}
	want, s := ptr.Deref(d.Spec.Replicas, 1), d.Status
	w := workload{
		selector: d.Spec.Selector, template: d.Spec.Template,
		available: s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == want && s.AvailableReplicas == want && s.Replicas == want,
	}
	for _, c := range s.Conditions {
		w.state = append(w.state, fmt.Sprintf("condition %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return w, nil
}

// patch changes it.
func (r running) patch(ctx context.Context, as types.PatchType, patch []byte) (err error) {
	if r.daemonSet {
		_, err = r.client.AppsV1().DaemonSets(r.namespace).Patch(ctx, r.name, as, patch, metav1.PatchOptions{})
	} else {
		_, err = r.client.AppsV1().Deployments(r.namespace).Patch(ctx, r.name, as, patch, metav1.PatchOptions{})
	}
	return wrap.Errorf(err, "change %s", r)
}
