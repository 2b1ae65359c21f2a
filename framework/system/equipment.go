package system

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/kind"
)

// InCluster is the handler of an installation in the cluster, without its workers.
func (hs *Handlers) InCluster(i *Installation) handler.Installation {
	settings := hs.settings
	if ref, ok := hs.images[buildOf(i.Handler)]; ok {
		settings.Image = ref
	}
	settings.Installation = i.Name
	if i.queue != nil {
		settings.QueueName, settings.QueueURL = hs.queueName(i), i.queue.QueueURL(settings.Endpoint)
	}
	return handler.Installation{Description: i.Handler, Settings: settings, Clientset: hs.cluster.Clientset, Config: hs.cluster.Config}
}

// WithWorkers is InCluster with the workers as they are now.
func (hs *Handlers) WithWorkers(ctx context.Context, i *Installation) (handler.Installation, error) {
	h, capacity := hs.InCluster(i), i.Handler.Workers.Capacity
	// What a drill launches is the handler's, whatever its capacity.
	fixed := slices.DeleteFunc(slices.Clone(hs.cluster.Nodes), func(n cluster.Node) bool {
		return n.Capacity == nodes.ControlPlane || capacity != "" && n.Capacity != capacity
	})
	for _, n := range slices.Concat(fixed, hs.launches.drill, hs.launches.fleet) {
		w, err := hs.worker(ctx, n)
		if err != nil {
			return h, err
		}
		h.Settings.Workers = append(h.Settings.Workers, w)
	}
	return h, hs.measureLost(ctx, h.Settings.Workers)
}

// withTagged is WithWorkers, and tags the workers' instances as the handler requires. The tags
// stay: nothing else reads them.
func (hs *Handlers) withTagged(ctx context.Context, i *Installation) (handler.Installation, error) {
	h, err := hs.WithWorkers(ctx, i)
	if err != nil {
		return h, err
	}
	for _, w := range h.Settings.Workers {
		if hs.lane != "" && !hs.cluster.IsVirtual(w.Node) {
			continue // its instance is in the account that is no lane's
		}
		if err := hs.aws.Tag(ctx, w.Instance, h.Tags(w)); err != nil {
			return h, err
		}
	}
	return h, nil
}

// worker is a node as a handler's objects have it. One that is lost has no size.
func (hs *Handlers) worker(ctx context.Context, n cluster.Node) (handler.Worker, error) {
	w := handler.Worker{
		Node: n.Name, Instance: n.Instance, ProviderID: kind.ProviderID(n.Zone, n.Instance),
		Capacity: n.Capacity, Zone: n.Zone,
	}
	node, err := hs.cluster.Clientset.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return w, fmt.Errorf("read node %s: %w", n.Name, err)
	}
	if err == nil && !node.Status.Capacity.Cpu().IsZero() {
		w.InstanceType = node.Labels[corev1.LabelInstanceTypeStable]
		w.CPU, w.Memory, w.Pods = node.Status.Capacity.Cpu().String(), node.Status.Capacity.Memory().String(), node.Status.Capacity.Pods().String()
	}
	return w, nil
}

// measureLost gives lost workers the size of another: all are the same. If all of them are lost,
// that is the on-demand worker, which never is.
func (hs *Handlers) measureLost(ctx context.Context, workers []handler.Worker) error {
	lost := func(w handler.Worker) bool { return w.CPU == "" }
	if !slices.ContainsFunc(workers, lost) {
		return nil
	}
	measured := slices.DeleteFunc(slices.Clone(workers), lost)
	for _, n := range hs.cluster.Nodes {
		if len(measured) == 0 && n.Capacity == nodes.OnDemand {
			w, err := hs.worker(ctx, n)
			if err != nil {
				return err
			}
			if !lost(w) {
				measured = append(measured, w)
			}
		}
	}
	for i := range workers {
		if w := &workers[i]; lost(*w) && len(measured) > 0 {
			like := measured[0]
			w.InstanceType, w.CPU, w.Memory, w.Pods = like.InstanceType, like.CPU, like.Memory, like.Pods
		}
	}
	return nil
}

// label sets a handler's labels on a worker's node when that has registered. A handler that reads
// metadata may start there then, so the metadata must be served.
func (hs *Handlers) label(ctx context.Context, d handler.Description, w handler.Worker, labels map[string]string) error {
	if err := nodes.WaitRegisteredAs(ctx, hs.cluster.Clientset, w.Node, w.ProviderID); err != nil {
		return err
	}
	if d.ReadsMetadata() {
		if err := hs.metadata().waitServed(ctx, w.Node); err != nil {
			return err
		}
	}
	return nodes.AddLabels(ctx, hs.cluster.Clientset, w.Node, labels)
}

// Readmit makes a node schedulable again and removes the taints that the installed handlers
// set, as an operator does.
func (hs *Handlers) Readmit(ctx context.Context, node string) error {
	return nodes.Readmit(ctx, hs.cluster.Clientset, node, hs.leftovers())
}

// Initialize sets the labels on a worker's node that the installation's pods need there.
func (hs *Handlers) Initialize(ctx context.Context, i *Installation, node string) error {
	labels, err := hs.labelsOf(ctx, i, node)
	if err != nil {
		return err
	}
	return nodes.AddLabels(ctx, hs.cluster.Clientset, node, labels)
}

// Uninitialize removes them, and returns when its pods have left the node. The next Restore sets the
// labels again, if ReplacePods is called.
func (hs *Handlers) Uninitialize(ctx context.Context, i *Installation, node string) error {
	labels, err := hs.labelsOf(ctx, i, node)
	if err != nil {
		return err
	}
	if err := nodes.RemoveLabels(ctx, hs.cluster.Clientset, node, slices.Collect(maps.Keys(labels))); err != nil {
		return err
	}
	return wrap.Errorf(hs.InCluster(i).WaitGone(ctx, node), "remove the labels of handler %s from %s", i.Handler.Name, node)
}

// labelsOf are the labels that the handler needs on a worker's node.
func (hs *Handlers) labelsOf(ctx context.Context, i *Installation, node string) (map[string]string, error) {
	h, err := hs.WithWorkers(ctx, i)
	if err != nil {
		return nil, err
	}
	for _, w := range h.Settings.Workers {
		if w.Node == node {
			return h.Labels(w), nil
		}
	}
	return nil, fmt.Errorf("%s is no worker of handler %s", node, i.Handler.Name)
}
