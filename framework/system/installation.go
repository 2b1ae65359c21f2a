package system

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
)

// ErrNotInstalled is why no drill can be played with a handler: it does not become
// ready, or its manifests are rejected.
var ErrNotInstalled = errors.New("the handler cannot be installed")

// Installation is a handler in the cluster. Its namespace and its credentials are its own, so
// that there can be several at the same time.
type Installation struct {
	// Name is different for each: history.UnderTest, or the history.Event.By of what it does.
	Name string
	// Handler is its description, with the settings for a feature.
	Handler handler.Description
	// OwnQueue reports whether it has a queue of its own, which rules of its own feed, as two
	// charts would set them up. Otherwise it reads the cluster's queue.
	OwnQueue bool

	// What follows is its state, which the System keeps.

	queue   *cloud.AWS // a client of its own queue; nil without one
	ready   bool       // it became ready
	stopped bool       // while workers are restored
	replace bool       // its pods are to be replaced, see ReplacePods
}

// Ready reports whether it became ready.
func (i *Installation) Ready() bool { return i.ready }

// underTest reports whether it is the handler that is checked. It stays until another one takes
// its place; every other installation is there for one drill.
func (i *Installation) underTest() bool { return i.Name == history.UnderTest }

// FilePrefix is the beginning of the names of its files and of what reports have of it.
func (i *Installation) FilePrefix() string {
	if i.underTest() {
		return "handler"
	}
	return i.Name + "-handler"
}

// Installed is the installation of that name; nil if there is none.
func (s *System) Installed(name string) *Installation {
	for _, i := range s.installations {
		if i.Name == name {
			return i
		}
	}
	return nil
}

// Install installs a handler. One of that name that is installed and the same is kept, so that
// scenarios share it; one that differs is replaced. One that does not become ready stays until
// Uninstall.
func (s *System) Install(ctx context.Context, want Installation) error {
	if now := s.Installed(want.Name); now != nil && now.ready && now.OwnQueue == want.OwnQueue && now.Handler.Same(want.Handler) {
		now.Handler = want.Handler // another feature can have the same settings
		return s.onEachNode(ctx, now)
	}
	if err := s.Uninstall(ctx, want.Name); err != nil {
		return err
	}
	// Listed first: a handler that is half installed must be removed too.
	i := &Installation{Name: want.Name, Handler: want.Handler, OwnQueue: want.OwnQueue}
	s.installations = append(s.installations, i)
	if err := s.makeQueue(ctx, i); err != nil {
		return err
	}
	if i.Handler.ReadsMetadata() {
		if err := s.Metadata().start(ctx, s.Image); err != nil {
			return err
		}
	}
	if i.underTest() {
		if err := s.permit(ctx, i.Handler); err != nil {
			return err
		}
	}
	h, err := s.withTagged(ctx, i)
	if err != nil {
		return err
	}
	if err := s.withLabels(ctx, h, h.Install); err != nil {
		if ctx.Err() == nil && i.underTest() {
			err = fmt.Errorf("%w: %w", ErrNotInstalled, err)
		}
		return err
	}
	i.ready = true
	return nil
}

// makeQueue makes the installation's own queue, empty, if it is to have one.
func (s *System) makeQueue(ctx context.Context, i *Installation) error {
	if !i.OwnQueue {
		return nil
	}
	i.queue = s.AWS.Another()
	err := i.queue.DeployStack(ctx, s.queueName(i))
	if err == nil {
		err = i.queue.Purge(ctx)
	}
	if err != nil {
		return fmt.Errorf("the queue of handler %s: %w", i.Handler.Name, err)
	}
	return nil
}

// queueName names the queue that the handler reads, and the stack of one of its own.
func (s *System) queueName(i *Installation) string {
	if i.OwnQueue {
		return s.ownQueue(i.Name)
	}
	return s.opts.Cluster
}

func (s *System) ownQueue(installation string) string { return s.opts.Cluster + "-" + installation }

// permit makes the recording proxy refuse what the handler's IAM policy does not allow.
func (s *System) permit(ctx context.Context, d handler.Description) error {
	request := s.Cluster.Objects().PodRequest(http.MethodDelete, Namespace, ProxyPod, RecordsPort, "permitted")
	if d.Policy != "" {
		actions, err := json.Marshal(d.Permitted)
		if err != nil {
			return fmt.Errorf("encode the permitted actions: %w", err)
		}
		request = s.Cluster.Objects().PodRequest(http.MethodPut, Namespace, ProxyPod, RecordsPort, "permitted").
			SetHeader("Content-Type", "application/json").Body(actions)
	}
	if err := request.Do(ctx).Error(); err != nil {
		return fmt.Errorf("set what the handler's policy allows at the recording proxy: %w", err)
	}
	return nil
}

// onEachNode waits until a handler that runs on each node is on those that were restored.
func (s *System) onEachNode(ctx context.Context, i *Installation) error {
	if !i.Handler.OnEachNode() {
		return nil
	}
	h, err := s.WithWorkers(ctx, i)
	if err != nil {
		return err
	}
	return h.WaitReady(ctx)
}

// Uninstall removes the installation of that name, and its queue. If nothing is installed, it
// removes what an earlier run left.
func (s *System) Uninstall(ctx context.Context, name string) error {
	if len(s.installations) == 0 {
		return s.removeLeftovers(ctx)
	}
	i := s.Installed(name)
	if i == nil {
		return nil
	}
	h, err := s.WithWorkers(ctx, i)
	if err != nil {
		return err
	}
	if err := h.Uninstall(ctx); err != nil {
		return err
	}
	if i.queue != nil {
		if err := i.queue.DeleteStack(ctx, s.queueName(i)); err != nil {
			return fmt.Errorf("remove the queue of handler %s: %w", i.Handler.Name, err)
		}
	}
	s.installations = slices.DeleteFunc(s.installations, func(o *Installation) bool { return o == i })
	if !s.ServesMetadata() {
		if err := s.Metadata().stop(ctx); err != nil {
			return err
		}
	}
	if len(s.installations) > 0 {
		return nil
	}
	return s.Cluster.RemoveLeftovers(ctx)
}

// removeLeftovers removes the handlers that an earlier run left, which would continue to drain.
func (s *System) removeLeftovers(ctx context.Context) error {
	err := errors.Join(handler.RemoveLeftover(ctx, s.Cluster.Config), s.Metadata().stop(ctx), s.AWS.DeleteStack(ctx, s.ownQueue(history.OtherHandler)))
	if err != nil {
		return err
	}
	return s.Cluster.RemoveLeftovers(ctx)
}

// uninstallOthers removes every installation but that of the handler under test. What they left
// on nodes is for Restore.
func (s *System) uninstallOthers(ctx context.Context) error {
	for _, i := range slices.Clone(s.installations) {
		if i.underTest() {
			continue
		}
		if err := s.Uninstall(ctx, i.Name); err != nil {
			return err
		}
	}
	return nil
}

// Meta is what histories record about an installation: the handler's description, the version of
// its image if it is part of this product, and where it runs.
func (s *System) Meta(i Installation) history.Handler {
	meta, workload := i.Handler.Meta(), s.InCluster(&i).Workload()
	if meta.Version == "" || meta.Version == "(devel)" {
		_, meta.Version, _ = strings.Cut(cmp.Or(s.images[buildOf(i.Handler)], s.Image), ":")
	}
	if i.Handler.OnEachNode() {
		meta.DaemonSet = workload
	} else {
		meta.Deployment = workload
	}
	return meta
}

// ServesMetadata reports whether a handler in the cluster reads the metadata of its instance.
func (s *System) ServesMetadata() bool {
	return slices.ContainsFunc(s.installations, func(i *Installation) bool { return i.Handler.ReadsMetadata() })
}

// leftovers reports whether a handler sets the taint or annotation with a key on the nodes
// that it drains: one that is installed, or any that an earlier run may have left.
func (s *System) leftovers() func(key string) bool {
	installed := slices.Clone(s.installations)
	return func(key string) bool {
		return handler.LeavesBehind(key) || slices.ContainsFunc(installed, func(i *Installation) bool { return i.Handler.LeavesBehind(key) })
	}
}

// ReplacePods makes the next Restore replace the pods of the handler under test: those that a drill
// disturbed count restarts, and may wait before the next one.
func (s *System) ReplacePods() {
	if i := s.Installed(history.UnderTest); i != nil {
		i.replace = true
	}
}

// stop stops a handler whose pods are to be replaced. It also stops one that has objects
// for workers if one of the workers is lost, or if nodes are launched or were: it would act on
// a worker that is not yet restored completely. Resume starts the handler again; if that
// fails, the next Restore starts over.
func (s *System) stop(ctx context.Context, i *Installation, launches bool) error {
	h, err := s.WithWorkers(ctx, i)
	if err != nil {
		return err
	}
	if !i.stopped && !i.replace {
		affected, err := s.lostWorkers(ctx, h)
		affected = affected || h.KnowsWorkers() && (launches || s.launches != nil && s.launches.Active())
		if err != nil || !affected {
			return err
		}
	}
	if h.OnEachNode() {
		// Nothing else ends the pods of a node that is gone for the next 40 s.
		if err := s.Cluster.RemovePodsOfLost(ctx); err != nil {
			return err
		}
	}
	if err := h.Stop(ctx); err != nil {
		return err
	}
	i.stopped, i.replace = true, false
	return nil
}

// lostWorkers reports whether the handler has objects for workers, and lacks one of them or
// a worker.
func (s *System) lostWorkers(ctx context.Context, h handler.Installation) (bool, error) {
	if !h.KnowsWorkers() {
		return false, nil
	}
	lost, err := s.Cluster.Lost(ctx)
	if err != nil || len(lost) > 0 {
		return true, err
	}
	intact, err := h.Intact(ctx)
	return !intact, err
}

// resume starts a stopped handler again.
func (s *System) resume(ctx context.Context, i *Installation) error {
	if !i.stopped {
		return nil
	}
	h, err := s.withTagged(ctx, i)
	if err != nil {
		return err
	}
	if err := s.withLabels(ctx, h, h.Start); err != nil {
		return err
	}
	i.stopped = false
	return nil
}

// onEachInstallation does the same to all installations at once.
func (s *System) onEachInstallation(ctx context.Context, do func(context.Context, *Installation) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, i := range s.installations {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// withLabels runs start, and labels the workers' nodes as the handler requires. Both at once:
// a lost worker may register while the handler starts. RemoveLeftovers removes the labels.
func (s *System) withLabels(ctx context.Context, h handler.Installation, start func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return start(ctx) })
	for _, w := range h.Settings.Workers {
		if labels := h.Labels(w); len(labels) > 0 {
			group.Go(func() error { return s.label(ctx, h.Description, w, labels) })
		}
	}
	return group.Wait()
}
