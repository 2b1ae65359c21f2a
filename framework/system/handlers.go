package system

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/objects"
	"github.com/spotdrill/spotdrill/kind"
)

// ErrNoImage is why a handler cannot be drilled on this machine: no registry gives
// its image, and it cannot be built here.
var ErrNoImage = kind.ErrNotAvailable

// ErrNotInstalled is why no drill can be played with a handler: it does not become
// ready, or its manifests are rejected.
var ErrNotInstalled = errors.New("the handler cannot be installed")

// build identifies the image of a handler: its description, and the binary that
// replaces the product's own, or the release that replaces its version, if any.
type build struct{ file, binary, version string }

func buildOf(d handler.Description) build { return build{d.File, d.Binary, d.Version} }

// Provide loads the image of a handler into the nodes: that of its Binary; the one
// that override names, which the engine must hold; or that of its Release or its
// description, which is pulled or built. Without any of them it is the product's own, which the nodes
// have. ErrNoImage if no registry gives it.
func (s *System) Provide(ctx context.Context, d handler.Description, override string) error {
	return s.provide(ctx, d, override, "handler-image")
}

// ProvideSecond loads the image of a second handler into the nodes.
func (s *System) ProvideSecond(ctx context.Context, d handler.Description) error {
	return s.provide(ctx, d, "", "second-handler-image")
}

// provide also notes under that name in the environment which image it is.
func (s *System) provide(ctx context.Context, d handler.Description, override, name string) error {
	if d.Binary != "" {
		ref, err := s.Cluster.LoadBinary(ctx, d.Binary)
		if err != nil {
			return err
		}
		s.images[buildOf(d)] = ref
		return nil
	}
	held, err := s.hold(ctx, d, override)
	if err != nil || held == "" {
		return err
	}
	return s.timed("handler's image in the nodes", func() error {
		ref, err := s.Cluster.LoadImage(ctx, held, "handler", cluster.WorkerNames(s.opts.Cluster))
		if err != nil {
			return err
		}
		s.images[buildOf(d)] = ref
		s.Environment[name] = held + " as " + ref
		return nil
	})
}

func (s *System) imageOptions() kind.ImageOptions {
	return kind.ImageOptions{Source: s.opts.Source, Log: s.opts.Log}
}

// hold makes the container engine hold the image of a handler and returns its
// reference; "" for the product's own.
func (s *System) hold(ctx context.Context, d handler.Description, override string) (string, error) {
	switch {
	case override != "":
		ok, err := s.engine.HasImage(ctx, override)
		if err == nil && !ok {
			err = fmt.Errorf("--handler-image=%s: %s does not hold this image", override, s.engine.Name)
		}
		return override, err
	case d.Release != nil:
		return kind.ReleaseImage(ctx, s.engine, s.imageOptions(), *d.Release)
	case d.Image.Ref == "":
		return "", nil
	case len(d.Image.Build) > 0:
		err := kind.BuildImage(ctx, s.engine, s.imageOptions(), filepath.Dir(d.File), d.Image.Build, d.Image.Ref)
		if err != nil {
			err = fmt.Errorf("%s: %w", d.At("image.build"), err)
		}
		return d.Image.Ref, err
	}
	held, err := kind.HandlerImage(ctx, s.engine, s.imageOptions(), d.Image.Ref, d.Image.Recipe)
	if err != nil {
		err = fmt.Errorf("%s: %w", d.At("image.ref"), err)
	}
	return held, err
}

// Withdraw uninstalls a handler, and removes the image that Provide loaded from its
// Binary.
func (s *System) Withdraw(ctx context.Context, d handler.Description) error {
	if err := s.Uninstall(ctx); err != nil {
		return err
	}
	ref, ok := s.images[buildOf(d)]
	if !ok || d.Binary == "" || ref == s.Image {
		return nil
	}
	delete(s.images, buildOf(d))
	return s.Cluster.RemoveImage(ctx, ref)
}

// Install makes d, with its settings for a feature, the one handler in the cluster. A
// handler that is installed and the same is kept, so that scenarios share it; one
// that does not become ready stays until Uninstall.
func (s *System) Install(ctx context.Context, d handler.Description, feature string) error {
	d = d.For(feature)
	if s.installed != nil && !s.unready && s.installed.Same(d) {
		s.installed = &d // another feature can have the same settings
		return s.onEachNode(ctx, d)
	}
	if err := s.Uninstall(ctx); err != nil {
		return err
	}
	// Set first: a handler that is half installed must be removed too, once its state
	// is saved.
	s.installed, s.unready = &d, true
	if d.ReadsMetadata() {
		if err := s.startMetadata(ctx); err != nil {
			return err
		}
	}
	if err := s.permit(ctx, d); err != nil {
		return err
	}
	settings, err := s.equip(ctx, d)
	if err != nil {
		return err
	}
	if err := s.withLabels(ctx, d, settings, d.Install); err != nil {
		if ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", ErrNotInstalled, err)
		}
		return err
	}
	s.unready = false
	return nil
}

// permit makes the recording proxy refuse what the handler's IAM policy does not allow.
func (s *System) permit(ctx context.Context, d handler.Description) error {
	request := objects.PodRequest(s.Cluster, http.MethodDelete, Namespace, ProxyPod, RecordsPort, "permitted")
	if d.Policy != "" {
		actions, err := json.Marshal(d.Permitted)
		if err != nil {
			return fmt.Errorf("encode the permitted actions: %w", err)
		}
		request = objects.PodRequest(s.Cluster, http.MethodPut, Namespace, ProxyPod, RecordsPort, "permitted").
			SetHeader("Content-Type", "application/json").Body(actions)
	}
	if err := request.Do(ctx).Error(); err != nil {
		return fmt.Errorf("set what the handler's policy allows at the recording proxy: %w", err)
	}
	return nil
}

// onEachNode waits until a handler that runs on each node is on those that were restored.
func (s *System) onEachNode(ctx context.Context, d handler.Description) error {
	if !d.OnEachNode() {
		return nil
	}
	settings, err := s.Equipment(ctx, d)
	if err != nil {
		return err
	}
	return d.WaitReady(ctx, s.Cluster.Config, settings)
}

// Installed is the handler in the cluster, nil for none, and whether it became ready.
func (s *System) Installed() (d *handler.Description, ready bool) { return s.installed, !s.unready }

// Uninstall removes the handler that Install created, or one that an earlier run left.
func (s *System) Uninstall(ctx context.Context) error {
	if s.installed == nil {
		if err := errors.Join(handler.RemoveLeftover(ctx, s.Cluster.Config), s.stopMetadata(ctx), s.AWS.DeleteStack(ctx, s.secondQueue())); err != nil {
			return err
		}
		return s.Cluster.Disown(ctx)
	}
	settings, err := s.Equipment(ctx, *s.installed)
	if err != nil {
		return err
	}
	if err := s.installed.Uninstall(ctx, s.Cluster.Config, settings); err != nil {
		return err
	}
	s.installed, s.unready, s.paused, s.worn = nil, false, false, false
	if err := s.stopMetadata(ctx); err != nil {
		return err
	}
	return s.Cluster.Disown(ctx)
}

// Meta is what histories record about the handler: its description, the version of
// its image if it is part of this product, and where it runs.
func (s *System) Meta(d handler.Description) history.Handler { return s.meta(d, s.Settings) }

// MetaOfSecond is what they record about a second handler.
func (s *System) MetaOfSecond(d handler.Description) history.Handler {
	return s.meta(d, s.SettingsOfSecond())
}

func (s *System) meta(d handler.Description, settings handler.Settings) history.Handler {
	meta := d.Meta()
	if meta.Version == "" || meta.Version == "(devel)" {
		_, meta.Version, _ = strings.Cut(cmp.Or(s.images[buildOf(d)], s.Image), ":")
	}
	if d.OnEachNode() {
		meta.DaemonSet = d.Workload(settings)
	} else {
		meta.Deployment = d.Workload(settings)
	}
	return meta
}

// equip tags the workers' instances as the handler requires, and returns its
// settings. The tags stay: nothing else reads them.
func (s *System) equip(ctx context.Context, d handler.Description) (handler.Settings, error) {
	settings, err := s.Equipment(ctx, d)
	if err != nil {
		return settings, err
	}
	return settings, s.tag(ctx, d, settings)
}

func (s *System) tag(ctx context.Context, d handler.Description, settings handler.Settings) error {
	for _, w := range settings.Workers {
		if err := s.AWS.Tag(ctx, w.Instance, d.Tags(settings, w)); err != nil {
			return err
		}
	}
	return nil
}

// withLabels runs start, and labels the workers' nodes as the handler requires. Both at once:
// a lost worker may register while the handler starts. Disown removes the labels.
func (s *System) withLabels(ctx context.Context, d handler.Description, settings handler.Settings, start func(context.Context, *rest.Config, handler.Settings) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return start(ctx, s.Cluster.Config, settings) })
	for _, w := range settings.Workers {
		if labels := d.Labels(settings, w); len(labels) > 0 {
			group.Go(func() error { return s.label(ctx, d, w, labels) })
		}
	}
	return group.Wait()
}

// label sets a handler's labels on a worker's node when that has registered. A handler that reads
// metadata may start there then, so the metadata must be served.
func (s *System) label(ctx context.Context, d handler.Description, w handler.Worker, labels map[string]string) error {
	if err := s.Cluster.WaitRegisteredAs(ctx, w.Node, w.ProviderID); err != nil {
		return err
	}
	if d.ReadsMetadata() {
		if err := s.metadataServed(ctx, w.Node); err != nil {
			return err
		}
	}
	return s.Cluster.AddLabels(ctx, w.Node, labels)
}

// Initialize sets the labels on a worker's node that the installed handler's pods need there.
func (s *System) Initialize(ctx context.Context, node string) error {
	labels, err := s.labelsOf(ctx, node)
	if err != nil {
		return err
	}
	return s.Cluster.AddLabels(ctx, node, labels)
}

// Uninitialize takes them off, and returns when its pods have left the node. The next Restore sets the
// labels again, if Renew is called.
func (s *System) Uninitialize(ctx context.Context, node string) error {
	labels, err := s.labelsOf(ctx, node)
	if err != nil {
		return err
	}
	if err := s.Cluster.RemoveLabels(ctx, node, slices.Collect(maps.Keys(labels))); err != nil {
		return err
	}
	if err := s.installed.WaitGone(ctx, s.Cluster.Config, s.Settings, node); err != nil {
		return fmt.Errorf("take the labels of handler %s off %s: %w", s.installed.Name, node, err)
	}
	return nil
}

// labelsOf are the labels that the installed handler needs on a worker's node.
func (s *System) labelsOf(ctx context.Context, node string) (map[string]string, error) {
	settings, err := s.Equipment(ctx, *s.installed)
	if err != nil {
		return nil, err
	}
	for _, w := range settings.Workers {
		if w.Node == node {
			return s.installed.Labels(settings, w), nil
		}
	}
	return nil, fmt.Errorf("%s is no worker of handler %s", node, s.installed.Name)
}

// Equipment is Settings with a handler's image and the workers as they are now.
func (s *System) Equipment(ctx context.Context, d handler.Description) (handler.Settings, error) {
	settings := s.Settings
	if ref, ok := s.images[buildOf(d)]; ok {
		settings.Image = ref
	}
	// What a drill launches is the handler's, whatever its capacity.
	fixed := slices.DeleteFunc(slices.Clone(s.Cluster.Nodes), func(n cluster.Node) bool {
		return n.Capacity == cluster.ControlPlane || d.Workers.Capacity != "" && n.Capacity != d.Workers.Capacity
	})
	for _, n := range slices.Concat(fixed, s.launched) {
		w, err := s.worker(ctx, n)
		if err != nil {
			return settings, err
		}
		settings.Workers = append(settings.Workers, w)
	}
	return settings, s.measureLost(ctx, settings.Workers)
}

// worker is a node as a handler's objects have it. One that is lost has no size.
func (s *System) worker(ctx context.Context, n cluster.Node) (handler.Worker, error) {
	w := handler.Worker{
		Node: n.Name, Instance: n.Instance, ProviderID: kind.ProviderID(n.Zone, n.Instance),
		Capacity: n.Capacity, Zone: n.Zone,
	}
	node, err := s.Cluster.Clientset.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
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
func (s *System) measureLost(ctx context.Context, workers []handler.Worker) error {
	lost := func(w handler.Worker) bool { return w.CPU == "" }
	if !slices.ContainsFunc(workers, lost) {
		return nil
	}
	measured := slices.DeleteFunc(slices.Clone(workers), lost)
	for _, n := range s.Cluster.Nodes {
		if len(measured) == 0 && n.Capacity == cluster.OnDemand {
			w, err := s.worker(ctx, n)
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

// Renew makes the next Restore replace the handler's pods: those that a drill disturbed
// count restarts, and may wait before the next one.
func (s *System) Renew() { s.worn = true }

// pause stops a handler whose pods are to be replaced. It also stops one that has objects
// for workers if one of the workers is lost, or if nodes are launched or were: it would act on
// a worker that is not yet restored completely. Resume starts the handler again; if that
// fails, the next Restore starts over.
func (s *System) pause(ctx context.Context, launches bool) error {
	settings, err := s.Equipment(ctx, *s.installed)
	if err != nil {
		return err
	}
	if !s.paused && !s.worn {
		affected, err := s.lostWorkers(ctx, settings)
		affected = affected || s.installed.KnowsWorkers() && (launches || s.launches != nil && s.launches.Active())
		if err != nil || !affected {
			return err
		}
	}
	if s.installed.OnEachNode() {
		// Nothing else ends the pods of a node that is gone for the next 40 s.
		if err := s.Cluster.RemovePodsOfLost(ctx); err != nil {
			return err
		}
	}
	if err := s.installed.Stop(ctx, s.Cluster.Config, settings); err != nil {
		return err
	}
	s.paused, s.worn = true, false
	return nil
}

// lostWorkers reports whether the handler has objects for workers, and lacks one of them or
// a worker.
func (s *System) lostWorkers(ctx context.Context, settings handler.Settings) (bool, error) {
	if !s.installed.KnowsWorkers() {
		return false, nil
	}
	lost, err := s.Cluster.Lost(ctx)
	if err != nil || len(lost) > 0 {
		return true, err
	}
	intact, err := s.installed.Intact(ctx, s.Cluster.Config, settings)
	return !intact, err
}

func (s *System) resume(ctx context.Context) error {
	if !s.paused {
		return nil
	}
	settings, err := s.equip(ctx, *s.installed)
	if err != nil {
		return err
	}
	if err := s.withLabels(ctx, *s.installed, settings, s.installed.Start); err != nil {
		return err
	}
	s.paused = false
	return nil
}
