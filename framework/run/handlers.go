package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/kind"
)

// ErrNoImage is why a handler cannot be drilled on this machine.
var ErrNoImage = kind.ErrNotAvailable

// ErrNotInstalled is why no drill can be played with a handler: it does not become
// ready, or its manifests are refused.
var ErrNotInstalled = errors.New("the handler cannot be installed")

// Provide brings the image of a handler into the nodes: the product's own, one
// that the engine holds already, where override names it, or that of the
// description, pulled, or built. One that no registry gives is ErrNoImage.
func (s *System) Provide(ctx context.Context, d handler.Description, override string) error {
	held := override
	switch {
	case override != "":
		ok, err := s.engine.HasImage(ctx, override)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("--handler-image=%s: %s does not hold this image", override, s.engine.Name)
		}
	case d.Image.Ref == "":
		return nil // the product's own, which the nodes have, or none
	case len(d.Image.Build) > 0:
		held = d.Image.Ref
		if err := kind.BuildImage(ctx, s.engine, kind.ImageOptions{Log: s.opts.Log}, filepath.Dir(d.File), d.Image.Build, held); err != nil {
			return fmt.Errorf("%s: %w", d.At("image.build"), err)
		}
	default:
		var err error
		held, err = kind.HandlerImage(ctx, s.engine, kind.ImageOptions{Source: s.opts.Source, Log: s.opts.Log}, d.Image.Ref, d.Image.Recipe)
		if err != nil {
			return fmt.Errorf("%s: %w", d.At("image.ref"), err)
		}
	}
	return s.step("handler's image in the nodes", func() error {
		ref, err := s.Cluster.LoadImage(ctx, held)
		s.images[d.File] = ref
		s.Environment["handler-image"] = held + " as " + ref
		return err
	})
}

// ProvideBinary brings a static binary into the nodes as the image of a handler.
func (s *System) ProvideBinary(ctx context.Context, d handler.Description, binary string) error {
	ref, err := s.Cluster.LoadBinary(ctx, binary)
	if err != nil {
		return err
	}
	s.images[d.File] = ref
	return nil
}

// Withdraw removes a handler and the image that ProvideBinary brought.
func (s *System) Withdraw(ctx context.Context, d handler.Description) error {
	if err := s.Uninstall(ctx); err != nil {
		return err
	}
	ref, ok := s.images[d.File]
	if !ok || ref == s.image {
		return nil
	}
	delete(s.images, d.File)
	return s.Cluster.RemoveImage(ctx, ref)
}

// Install makes d, as it is set for the drills of a feature, the one handler in
// the cluster. One that is there already is kept, so that scenarios share it; one
// that does not become ready is left for Uninstall.
func (s *System) Install(ctx context.Context, d handler.Description, feature string) error {
	d = d.For(feature)
	if s.installed != nil && !s.unready && s.installed.Same(d) {
		return nil
	}
	if err := s.Uninstall(ctx); err != nil {
		return err
	}
	// Recorded first: what is half installed is to be removed as well, once its state
	// is saved.
	s.installed, s.unready = &d, true
	settings, err := s.equip(ctx, d)
	if err != nil {
		return err
	}
	if err := d.Install(ctx, s.Cluster.Config, settings); err != nil {
		if ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", ErrNotInstalled, err)
		}
		return err
	}
	s.unready = false
	return nil
}

// equip tags the workers' instances as the handler wants them, and returns its
// settings. The tags stay: nobody else reads them.
func (s *System) equip(ctx context.Context, d handler.Description) (handler.Settings, error) {
	settings, err := s.settingsOf(ctx, d)
	if err != nil {
		return settings, err
	}
	for _, w := range settings.Workers {
		if err := s.AWS.Tag(ctx, w.Instance, d.Tags(settings, w)); err != nil {
			return settings, err
		}
	}
	return settings, nil
}

// settingsOf are the settings for a handler with the workers as they are now.
func (s *System) settingsOf(ctx context.Context, d handler.Description) (handler.Settings, error) {
	settings := s.settings
	if ref, ok := s.images[d.File]; ok {
		settings.Image = ref
	}
	for _, n := range s.Cluster.Nodes {
		if n.Capacity == cluster.ControlPlane || d.Workers.Capacity != "" && n.Capacity != d.Workers.Capacity {
			continue
		}
		w := handler.Worker{
			Node: n.Name, Instance: n.Instance, ProviderID: kind.ProviderID(n.Instance),
			Capacity: n.Capacity, Zone: kind.Zone,
		}
		node, err := s.Cluster.Clientset.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return settings, fmt.Errorf("read node %s: %w", n.Name, err)
		}
		if err == nil {
			w.InstanceType = node.Labels[corev1.LabelInstanceTypeStable]
			w.CPU, w.Memory, w.Pods = node.Status.Capacity.Cpu().String(), node.Status.Capacity.Memory().String(), node.Status.Capacity.Pods().String()
		}
		settings.Workers = append(settings.Workers, w)
	}
	return settings, nil
}

// pause stops a handler that knows workers of its own, where one of them is lost:
// it would act on what is given back before it is complete. Resume starts it
// again; where that fails, the next restore begins anew.
func (s *System) pause(ctx context.Context) error {
	if s.paused || s.installed == nil || !s.installed.KnowsWorkers() {
		return nil
	}
	settings, err := s.settingsOf(ctx, *s.installed)
	if err != nil {
		return err
	}
	lost, err := s.Cluster.Lost(ctx)
	if err != nil {
		return err
	}
	intact, err := s.installed.Intact(ctx, s.Cluster.Config, settings)
	if err != nil || intact && len(lost) == 0 {
		return err
	}
	if err := s.installed.Stop(ctx, s.Cluster.Config, settings); err != nil {
		return err
	}
	s.paused = true
	return nil
}

func (s *System) resume(ctx context.Context) error {
	if !s.paused {
		return nil
	}
	settings, err := s.equip(ctx, *s.installed)
	if err != nil {
		return err
	}
	if err := s.installed.Start(ctx, s.Cluster.Config, settings); err != nil {
		return err
	}
	s.paused = false
	return nil
}

// newInstance starts another instance for a worker and ends the one that it had.
func (s *System) newInstance(ctx context.Context, worker string) (string, error) {
	running, err := s.AWS.Instances(ctx, s.opts.Cluster)
	if err != nil {
		return "", err
	}
	if old := running[worker]; old != "" {
		if err := s.AWS.Terminate(ctx, []string{old}); err != nil {
			return "", err
		}
	}
	started, err := s.AWS.RunInstances(ctx, s.opts.Cluster, []string{worker})
	return started[worker], err
}

// Meta is what histories say of the handler: what its description says, with the
// version of its image where it is part of this product, and where it runs.
func (s *System) Meta(d handler.Description) history.Handler {
	meta := d.Meta()
	if meta.Version == "" || meta.Version == "(devel)" {
		_, meta.Version, _ = strings.Cut(cmp.Or(s.images[d.File], s.image), ":")
	}
	meta.Deployment = d.Deployment(s.settings)
	return meta
}

// Uninstall removes the handler that Install made, or one that an earlier run
// left.
func (s *System) Uninstall(ctx context.Context) error {
	if s.installed == nil {
		if err := handler.RemoveLeftover(ctx, s.Cluster.Config); err != nil {
			return err
		}
		return s.Cluster.Disown(ctx)
	}
	settings, err := s.settingsOf(ctx, *s.installed)
	if err != nil {
		return err
	}
	if err := s.installed.Uninstall(ctx, s.Cluster.Config, settings); err != nil {
		return err
	}
	s.installed, s.unready, s.paused = nil, false, false
	return s.Cluster.Disown(ctx)
}

// Finish puts the cluster back as it was made: no handler, CoreDNS as it came.
func (s *System) Finish(ctx context.Context) error {
	if err := s.Uninstall(ctx); err != nil {
		return err
	}
	if err := s.Restore(ctx); err != nil {
		return err
	}
	if err := s.workloadGone(ctx); err != nil {
		return err
	}
	return s.Cluster.RestoreDNS(ctx)
}

// recordRights takes into the history what the handler may do in the cluster.
func (r *drilling) recordRights(ctx context.Context) error {
	rights, err := r.handler().Rights(ctx, r.Cluster.Config, r.settings)
	if err != nil {
		return err
	}
	for _, right := range rights {
		of := slices.Clone(right.NonResourceURLs)
		for _, group := range right.APIGroups {
			for _, resource := range right.Resources {
				of = append(of, group+"/"+resource)
			}
		}
		r.rec.Record(history.Event{Kind: history.RBACRule, Key: right.Role, Action: strings.Join(right.Verbs, ","), Reason: strings.Join(of, ",")})
	}
	return nil
}

// recordUse takes into the histories what the handler asked of the API server. What
// it used it used for all drills, so one of them tells it.
func recordUse(ctx context.Context, all []*drilling, since cluster.AuditMark) error {
	first := all[0]
	user, err := first.handler().User(ctx, first.Cluster.Config, first.settings)
	if err != nil || user == "" {
		return err
	}
	asked, err := first.Cluster.AuditSince(ctx, since, user)
	for _, e := range asked.Used {
		first.rec.Record(e)
	}
	objects, unknown := first.workerObjects(ctx)
	for _, r := range all {
		for _, c := range asked.Changes {
			if node, reason := aboutNode(c, objects); node != "" {
				said := r.rec.Clock().Of(c.Asked)
				r.rec.Record(history.Event{Kind: history.HandlerWrote, Owner: user, Action: c.Verb, Node: node, Reason: reason, Said: &said})
			}
		}
	}
	return errors.Join(err, unknown)
}

// workerObjects are what the drill's handler has for each worker, of which most have
// nothing.
func (r *drilling) workerObjects(ctx context.Context) ([]handler.WorkerObject, error) {
	if !r.handler().KnowsWorkers() {
		return nil, nil
	}
	settings, err := r.settingsOf(ctx, r.handler())
	if err != nil {
		return nil, err
	}
	return r.handler().WorkerObjects(settings)
}

// aboutNode is the node that a handler's change is about, and which object it changed
// where that is not the Node itself; empty where it is about none. What the handler has
// for a node it writes to at all times; only its deletion says that the node is to go,
// as that of a NodeClaim does.
func aboutNode(c cluster.Change, objects []handler.WorkerObject) (node, object string) {
	if c.Of == (schema.GroupResource{Resource: "nodes"}) && c.Verb != "delete" {
		return c.Name, ""
	}
	for _, o := range objects {
		if c.Verb == "delete" && c.Of == o.Of && c.Namespace == o.Namespace && c.Name == o.Name {
			return o.Node, o.Of.String() + " " + o.Name
		}
	}
	return "", ""
}

// saveHandlerLog keeps what the handler said during the drill beside the
// history.
func (r *drilling) saveHandlerLog(ctx context.Context) error {
	if r.installed == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	text, err := r.installed.Logs(ctx, r.Cluster.Config, r.settings, r.rec.Clock().Start())
	if err != nil {
		text = fmt.Sprintf("the handler's log could not be read: %v\n", err)
	}
	if err := os.WriteFile(filepath.Join(r.Dir, "handler.log"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("save the handler's log: %w", err)
	}
	return nil
}
