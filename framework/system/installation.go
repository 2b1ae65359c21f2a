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
	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/wrap"
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

	// What follows is its state, which Handlers keeps.

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

// Handlers installs handlers in the cluster, and removes them.
type Handlers struct {
	cluster   *cluster.Cluster
	aws       *cloud.AWS
	launches  *Launches
	name      string           // of the cluster
	lane      string           // of a Lane, else empty
	namespace string           // of the recording proxy
	settings  handler.Settings // that all of them have, see InCluster
	images    map[build]string // of handlers, as the nodes know them
	all       []*Installation  // in the order in which they were installed
}

func (hs *Handlers) metadata() Metadata { return Metadata{hs.cluster, hs} }

// Installed is the installation of that name; nil if there is none.
func (hs *Handlers) Installed(name string) *Installation {
	for _, i := range hs.all {
		if i.Name == name {
			return i
		}
	}
	return nil
}

// Install installs a handler. One of that name that is installed and the same is kept, so that
// scenarios share it; one that differs is replaced. One that does not become ready stays until
// Uninstall.
func (hs *Handlers) Install(ctx context.Context, want Installation) error {
	if now := hs.Installed(want.Name); now != nil && now.ready && now.OwnQueue == want.OwnQueue && now.Handler.Same(want.Handler) {
		now.Handler = want.Handler // another feature can have the same settings
		return hs.onEachNode(ctx, now)
	}
	if err := hs.Uninstall(ctx, want.Name); err != nil {
		return err
	}
	// Listed first: a handler that is half installed must be removed too.
	i := &Installation{Name: want.Name, Handler: want.Handler, OwnQueue: want.OwnQueue}
	hs.all = append(hs.all, i)
	if err := hs.makeQueue(ctx, i); err != nil {
		return err
	}
	if i.Handler.ReadsMetadata() {
		if err := hs.metadata().start(ctx, hs.settings.Image); err != nil {
			return err
		}
	}
	if i.underTest() {
		if err := hs.permit(ctx, i.Handler); err != nil {
			return err
		}
	}
	h, err := hs.withTagged(ctx, i)
	if err != nil {
		return err
	}
	if err := hs.withLabels(ctx, h, h.Install); err != nil {
		if ctx.Err() == nil && i.underTest() {
			err = fmt.Errorf("%w: %w", ErrNotInstalled, err)
		}
		return err
	}
	i.ready = true
	return nil
}

// makeQueue makes the installation's own queue, empty, if it is to have one.
func (hs *Handlers) makeQueue(ctx context.Context, i *Installation) error {
	if !i.OwnQueue {
		return nil
	}
	i.queue = hs.aws.Another()
	err := i.queue.DeployStack(ctx, hs.queueName(i))
	if err == nil {
		err = i.queue.Purge(ctx)
	}
	return wrap.Errorf(err, "the queue of handler %s", i.Handler.Name)
}

// queueName names the queue that the handler reads, and the stack of one of its own.
func (hs *Handlers) queueName(i *Installation) string {
	if i.OwnQueue {
		return hs.ownQueue(i.Name)
	}
	return hs.name
}

func (hs *Handlers) ownQueue(installation string) string { return hs.name + "-" + installation }

// permit makes the recording proxy refuse what the handler's IAM policy does not allow.
func (hs *Handlers) permit(ctx context.Context, d handler.Description) error {
	request := hs.cluster.Objects().PodRequest(http.MethodDelete, hs.namespace, ProxyPod, RecordsPort, "permitted")
	if d.Policy != "" {
		actions, err := json.Marshal(d.Permitted)
		if err != nil {
			return fmt.Errorf("encode the permitted actions: %w", err)
		}
		request = hs.cluster.Objects().PodRequest(http.MethodPut, hs.namespace, ProxyPod, RecordsPort, "permitted").
			SetHeader("Content-Type", "application/json").Body(actions)
	}
	return wrap.Errorf(request.Do(ctx).Error(), "set what the handler's policy allows at the recording proxy")
}

// onEachNode waits until a handler that runs on each node is on those that were restored.
func (hs *Handlers) onEachNode(ctx context.Context, i *Installation) error {
	if !i.Handler.OnEachNode() {
		return nil
	}
	h, err := hs.WithWorkers(ctx, i)
	if err != nil {
		return err
	}
	return h.WaitReady(ctx)
}

// Uninstall removes the installation of that name, and its queue. If nothing is installed, it
// removes what an earlier run left, but for a lane: what is there are those of other lanes.
func (hs *Handlers) Uninstall(ctx context.Context, name string) error {
	if len(hs.all) == 0 && hs.lane == "" {
		return hs.removeLeftovers(ctx)
	}
	i := hs.Installed(name)
	if i == nil {
		return nil
	}
	h, err := hs.WithWorkers(ctx, i)
	if err != nil {
		return err
	}
	if err := h.Uninstall(ctx); err != nil {
		return err
	}
	if i.queue != nil {
		if err := i.queue.DeleteStack(ctx, hs.queueName(i)); err != nil {
			return fmt.Errorf("remove the queue of handler %s: %w", i.Handler.Name, err)
		}
	}
	hs.all = slices.DeleteFunc(hs.all, func(o *Installation) bool { return o == i })
	if hs.lane != "" {
		return nil
	}
	if !hs.ServesMetadata() {
		if err := hs.metadata().stop(ctx); err != nil {
			return err
		}
	}
	if len(hs.all) > 0 {
		return nil
	}
	return hs.cluster.RemoveLeftovers(ctx)
}

// removeLeftovers removes the handlers that an earlier run left, which would continue to drain.
func (hs *Handlers) removeLeftovers(ctx context.Context) error {
	err := errors.Join(handler.RemoveLeftover(ctx, hs.cluster.Config), hs.metadata().stop(ctx), hs.aws.DeleteStack(ctx, hs.ownQueue(history.OtherHandler)))
	if err != nil {
		return err
	}
	return hs.cluster.RemoveLeftovers(ctx)
}

// uninstallOthers removes every installation but that of the handler under test. What they left
// on nodes is for Restore.
func (hs *Handlers) uninstallOthers(ctx context.Context) error {
	for _, i := range slices.Clone(hs.all) {
		if i.underTest() {
			continue
		}
		if err := hs.Uninstall(ctx, i.Name); err != nil {
			return err
		}
	}
	return nil
}

// Meta is what histories record about an installation: the handler's description, the version of
// its image if it is part of this product, and where it runs.
func (hs *Handlers) Meta(i Installation) history.Handler {
	meta, workload := i.Handler.Meta(), hs.InCluster(&i).Workload()
	if meta.Version == "" || meta.Version == "(devel)" {
		_, meta.Version, _ = strings.Cut(cmp.Or(hs.images[buildOf(i.Handler)], hs.settings.Image), ":")
	}
	if i.Handler.OnEachNode() {
		meta.DaemonSet = workload
	} else {
		meta.Deployment = workload
	}
	return meta
}

// ServesMetadata reports whether a handler in the cluster reads the metadata of its instance.
func (hs *Handlers) ServesMetadata() bool {
	return slices.ContainsFunc(hs.all, func(i *Installation) bool { return i.Handler.ReadsMetadata() })
}

// anywhere is one that reads metadata and the queue, and so may run on any worker, without the node's
// network; nil if there is none.
func (hs *Handlers) anywhere() *Installation {
	for _, i := range hs.all {
		if i.Handler.ReadsMetadata() && i.Handler.ReadsQueue() {
			return i
		}
	}
	return nil
}

// leftovers reports whether a handler sets the taint or annotation with a key on the nodes
// that it drains: one that is installed, or any that an earlier run may have left.
func (hs *Handlers) leftovers() func(key string) bool {
	installed := slices.Clone(hs.all)
	return func(key string) bool {
		return handler.LeavesBehind(key) || slices.ContainsFunc(installed, func(i *Installation) bool { return i.Handler.LeavesBehind(key) })
	}
}

// ReplacePods makes the next Restore replace the pods of the handler under test: those that a drill
// disturbed count restarts, and may wait before the next one.
func (hs *Handlers) ReplacePods() {
	if i := hs.Installed(history.UnderTest); i != nil {
		i.replace = true
	}
}

// stop stops a handler whose pods are to be replaced. It also stops one that has objects
// for workers if one of the workers is lost, or if nodes are launched or were: it would act on
// a worker that is not yet restored completely. Resume starts the handler again; if that
// fails, the next Restore starts over.
func (hs *Handlers) stop(ctx context.Context, i *Installation, launches bool) error {
	h, err := hs.WithWorkers(ctx, i)
	if err != nil {
		return err
	}
	if !i.stopped && !i.replace {
		affected, err := hs.lostWorkers(ctx, h)
		affected = affected || h.KnowsWorkers() && (launches || hs.launches.active())
		if err != nil || !affected {
			return err
		}
	}
	if h.OnEachNode() {
		// Nothing else ends the pods of a node that is gone for the next 40 s.
		if err := hs.cluster.RemovePodsOfLost(ctx); err != nil {
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
func (hs *Handlers) lostWorkers(ctx context.Context, h handler.Installation) (bool, error) {
	if !h.KnowsWorkers() {
		return false, nil
	}
	lost, err := hs.cluster.Lost(ctx)
	if err != nil || len(lost) > 0 {
		return true, err
	}
	intact, err := h.Intact(ctx)
	return !intact, err
}

// resume starts a stopped handler again.
func (hs *Handlers) resume(ctx context.Context, i *Installation) error {
	if !i.stopped {
		return nil
	}
	h, err := hs.withTagged(ctx, i)
	if err != nil {
		return err
	}
	if err := hs.withLabels(ctx, h, h.Start); err != nil {
		return err
	}
	i.stopped = false
	return nil
}

// onEach does the same to all installations at once.
func (hs *Handlers) onEach(ctx context.Context, do func(context.Context, *Installation) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, i := range hs.all {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// withLabels runs start, and labels the workers' nodes as the handler requires. Both at once:
// a lost worker may register while the handler starts. RemoveLeftovers removes the labels.
func (hs *Handlers) withLabels(ctx context.Context, h handler.Installation, start func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return start(ctx) })
	for _, w := range h.Settings.Workers {
		if labels := h.Labels(w); len(labels) > 0 {
			group.Go(func() error { return hs.label(ctx, h.Description, w, labels) })
		}
	}
	return group.Wait()
}
