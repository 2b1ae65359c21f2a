// Package launch makes nodes of the instances that EC2 launches for the cluster, as a real
// instance's boot does, and ends them with their instances. A spare worker of the cluster is
// joined as the node, with the instance's providerID, zone, type and size.
package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/framework/wait"
)

const (
	// look is how often EC2 is asked what it has launched: a request costs LocalStack some
	// 20 ms of processor time, and a real instance takes longer to boot.
	look = time.Second
	// monitor is how often the cloud's node lifecycle controller looks for nodes without an
	// instance (--node-monitor-period of the cloud controller manager).
	monitor = 5 * time.Second
	// unseen is for how long EC2 may fail to answer before it is an error.
	unseen = 30 * time.Second
)

// Controller makes nodes of the instances that are launched for a cluster, and ends those of terminated
// ones, until Close.
type Controller struct {
	cluster *cluster.Cluster
	aws     *cloud.AWS
	log     func(format string, args ...any)

	mu       sync.Mutex
	spares   []*spare
	failed   map[string]error // why instances did not become nodes
	turns    int              // launches that joined a worker
	unjoined map[string]bool  // instances that run without a node, because of a fault
	short    map[string]bool  // instances without a worker, which was logged
	faults   *fault.Faults

	recording sync.Mutex
	record    map[*func(history.Event)]bool // those that get the events now

	work   sync.WaitGroup
	cancel context.CancelFunc // ends work, and the loop
}

// Start parks every spare worker, terminates what an earlier run launched, and begins. When no
// spare worker is left, that many instances more become virtual nodes. It logs each launch.
func Start(ctx context.Context, c *cluster.Cluster, aws *cloud.AWS, virtual int, log func(format string, args ...any)) (*Controller, error) {
	l := &Controller{cluster: c, aws: aws, log: log, record: map[*func(history.Event)]bool{}}
	l.faults = fault.New(l.happened)
	workers := c.Spares()
	names, err := workers.Names()
	if err != nil {
		return nil, err
	}
	if err := workers.RemoveVirtual(ctx); err != nil {
		return nil, err
	}
	for rank, names := range [][]string{names, workers.VirtualNames(virtual)} {
		for _, name := range names {
			l.spares = append(l.spares, &spare{name: name, state: ending, rank: rank})
		}
	}
	if _, err := l.clear(ctx); err != nil {
		return nil, err
	}
	l.begin(ctx)
	return l, nil
}

// begin runs the loop. What the controller does ends with Close, not with the context of the
// caller, who may be done before.
func (l *Controller) begin(ctx context.Context) {
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.work.Go(func() { l.loop(ctx) })
}

func (l *Controller) loop(ctx context.Context) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	answered := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		instances, err := l.aws.Launched(ctx, l.cluster.Name)
		switch {
		case err == nil:
			answered = time.Now()
			l.follow(ctx, instances)
		case ctx.Err() == nil && time.Since(answered) > unseen:
			l.log("what EC2 launches cannot be seen since %s: %v", answered.Format(time.TimeOnly), err)
			answered = time.Now()
		}
	}
}

// follow does what the plan for these instances requires.
func (l *Controller) follow(ctx context.Context, instances []cloud.Launched) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := make([]spare, len(l.spares))
	for i, s := range l.spares {
		now[i] = *s
	}
	l.endUnjoined(instances)
	p := planFor(now, instances, l.failed)
	for _, j := range p.join {
		s := l.named(j.worker)
		l.happened(launchedEvent(j.instance))
		fault := l.fails(j.instance)
		switch fault {
		case history.EndedLaunch:
			l.work.Go(func() { l.endLaunch(ctx, j.instance.ID) })
			continue
		case history.UnjoinedLaunch:
			continue
		}
		l.turns++
		s.state, s.instance, s.zone, s.turn = joining, j.instance.ID, j.instance.Zone, l.turns
		l.work.Go(func() { l.join(ctx, s, j.instance, fault == history.UnreadyLaunch) })
	}
	for _, name := range p.end {
		s := l.named(name)
		s.state = ending
		l.work.Go(func() { l.end(ctx, s) })
	}
	for _, i := range p.unassigned {
		if !l.short[i.ID] {
			l.short[i.ID] = true
			l.happened(launchedEvent(i))
			l.failure(i.ID, "", fmt.Errorf("no spare worker or virtual node is left of %d: it stays without a node until one is", len(l.spares)))
		}
	}
}

func (l *Controller) named(name string) *spare {
	return l.spares[slices.IndexFunc(l.spares, func(s *spare) bool { return s.name == name })]
}

// join makes a worker the node of an instance; one that stays unready has no pod network.
func (l *Controller) join(ctx context.Context, s *spare, i cloud.Launched, unready bool) {
	began := time.Now()
	as, err := l.describe(ctx, i)
	if err == nil {
		as.Unready = unready
		err = l.cluster.Spares().Join(ctx, s.name, as)
	}
	took := time.Since(began)
	if err != nil && ctx.Err() == nil {
		l.mu.Lock()
		l.failed[i.ID], s.state = err, ending
		l.failure(i.ID, s.name, err)
		l.mu.Unlock()
		l.park(ctx, s)
		return
	}
	if err != nil {
		return // Clear and Close park it
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.state = joined
	l.happened(history.NewInstanceJoined(i.ID, s.name, history.With(history.Numbers{history.Took: took.Seconds()})))
	l.log("  instance %s (%s in %s) joined as node %s after %.1f s", i.ID, i.Type, i.Zone, s.name, took.Seconds())
}

// describe is the node that an instance becomes. Those that Karpenter launched have its
// startup taint, and get the labels of their capacity from it.
func (l *Controller) describe(ctx context.Context, i cloud.Launched) (cluster.Instance, error) {
	size, err := l.aws.SizeOf(ctx, i.Type)
	if err != nil {
		return cluster.Instance{}, err
	}
	as := cluster.Instance{ID: i.ID, Zone: i.Zone, Type: i.Type, Pods: size.Pods, MemoryTotal: size.Capacity(), PodENIs: size.PodENIs}
	as.CPU, as.Memory = size.Allocatable()
	if i.Tags[cloud.NodePoolTag] != "" {
		as.Taints = []corev1.Taint{{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}}
		return as, nil
	}
	as.Capacity = nodes.OnDemand
	if i.Spot {
		as.Capacity = nodes.Spot
	}
	return as, nil
}

// end ends the node of an instance that is gone, waits until its Node object is gone as
// well, and parks the worker.
func (l *Controller) end(ctx context.Context, s *spare) {
	if err := l.cluster.Spares().End(ctx, s.name); err != nil {
		l.trouble(ctx, s, err)
		return
	}
	l.happened(history.NewInstanceEnded(s.instance, s.name))
	tick := time.NewTicker(monitor)
	defer tick.Stop()
	for {
		gone, err := l.cluster.Spares().DeleteNode(ctx, s.name)
		if err != nil {
			l.trouble(ctx, s, err)
		}
		if gone {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	l.park(ctx, s)
}

// End ends an instance at once, as EC2 does at the deadline of a notice. One that has ended
// is no error.
func (l *Controller) End(ctx context.Context, instance string) error {
	l.mu.Lock()
	i := slices.IndexFunc(l.spares, func(s *spare) bool { return s.instance == instance && s.state == joined })
	var err error
	if i >= 0 {
		err = l.cluster.Spares().End(ctx, l.spares[i].name)
	}
	l.mu.Unlock()
	return errors.Join(err, l.aws.Terminate(ctx, []string{instance}))
}

// park parks a worker. One that cannot be parked is not used again before Clear.
func (l *Controller) park(ctx context.Context, s *spare) {
	if err := l.cluster.Spares().Park(ctx, s.name); err != nil {
		l.trouble(ctx, s, err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.state = parked
}

// trouble logs an error that is not the end of the controller itself.
func (l *Controller) trouble(ctx context.Context, s *spare, err error) {
	if ctx.Err() == nil {
		l.log("  worker %s, of instance %s: %v", s.name, s.instance, err)
	}
}

// failure reports that an instance did not become a node. It is called with mu.
func (l *Controller) failure(instance, node string, err error) {
	l.happened(history.NewInstanceFailed(instance, node, err.Error()))
	l.log("  instance %s is no node: %v", instance, err)
}

// launchedEvent has who launched it, as far as the tags show.
func launchedEvent(i cloud.Launched) history.Event {
	e := history.NewInstanceLaunched(i.ID, i.Type, i.Zone)
	if pool := i.Tags[cloud.NodePoolTag]; pool != "" {
		e.Owner = "NodePool/" + pool
	}
	return e
}

// happened passes an event on to what is recorded now.
func (l *Controller) happened(e history.Event) {
	l.recording.Lock()
	defer l.recording.Unlock()
	for record := range l.record {
		(*record)(e)
	}
}

// Record passes on the events of instances from now on, until stop.
func (l *Controller) Record(record func(history.Event)) (stop func()) {
	l.recording.Lock()
	defer l.recording.Unlock()
	l.record[&record] = true
	return func() {
		l.recording.Lock()
		defer l.recording.Unlock()
		delete(l.record, &record)
	}
}

// Nodes are the nodes of the launched instances that have joined, without their capacity,
// which another may decide. It waits for those that join now: a pod may run on one before.
func (l *Controller) Nodes(ctx context.Context) ([]cluster.Node, error) {
	err := wait.Until(ctx, launchTimeout, "the launched instances to join the cluster", func(context.Context) string {
		l.mu.Lock()
		defer l.mu.Unlock()
		if i := slices.IndexFunc(l.spares, func(s *spare) bool { return s.state == joining }); i >= 0 {
			return fmt.Sprintf("instance %s has not joined as %s", l.spares[i].instance, l.spares[i].name)
		}
		return ""
	})
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []cluster.Node
	for _, s := range l.spares {
		if s.state == joined {
			out = append(out, cluster.Node{Name: s.name, Instance: s.instance, Zone: s.zone})
		}
	}
	return out, nil
}

// Active reports whether any instance is a node, becomes one, or ends.
func (l *Controller) Active() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.spares, func(s *spare) bool { return s.state != parked })
}

// launchTimeout bounds the time from a launch until its node is there: on two cores it takes
// some 10 s.
const launchTimeout = 90 * time.Second

// Launch launches an instance, and returns its node when that is Ready.
func (l *Controller) Launch(ctx context.Context, as cloud.Launch) (cluster.Node, error) {
	id, err := l.aws.Launch(ctx, l.cluster.Name, as)
	if err != nil {
		return cluster.Node{}, err
	}
	node := cluster.Node{Instance: id, Zone: cmp.Or(as.Zone, l.aws.Zone()), Capacity: nodes.OnDemand}
	if as.Spot {
		node.Capacity = nodes.Spot
	}
	var failed error
	err = wait.Until(ctx, launchTimeout, "instance "+id+" to join the cluster", func(context.Context) string {
		l.mu.Lock()
		defer l.mu.Unlock()
		if failed = l.failed[id]; failed != nil {
			return ""
		}
		if i := slices.IndexFunc(l.spares, func(s *spare) bool { return s.instance == id && s.state == joined }); i >= 0 {
			node.Name = l.spares[i].name
			return ""
		}
		if l.short[id] {
			return "no spare worker is left"
		}
		return "it has not joined"
	})
	if err := errors.Join(err, failed); err != nil {
		return cluster.Node{}, err
	}
	return node, l.cluster.WaitNode(ctx, node.Name)
}

// Clear terminates all launched instances, and returns when every spare worker is parked. It reports whether any instance ran: a
// handler that had launched it would wait for its node.
func (l *Controller) Clear(ctx context.Context) (ended bool, err error) {
	l.Close()
	if ended, err = l.clear(ctx); err != nil {
		return ended, err
	}
	l.begin(ctx)
	return ended, nil
}

// Close ends the controller. The nodes stay.
func (l *Controller) Close() {
	l.cancel()
	l.work.Wait()
}

func (l *Controller) clear(ctx context.Context) (ended bool, err error) {
	if ended, err = terminate(ctx, l.cluster.Name, l.aws); err != nil {
		return ended, err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, s := range l.spares {
		if s.state == parked {
			continue
		}
		group.Go(func() error {
			already, err := l.cluster.Spares().Parked(groupCtx, s.name)
			if err == nil && !already {
				err = l.cluster.Spares().Park(groupCtx, s.name)
			}
			if err == nil {
				l.mu.Lock()
				defer l.mu.Unlock()
				s.state = parked
			}
			return err
		})
	}
	l.failed, l.short, l.unjoined = map[string]error{}, map[string]bool{}, map[string]bool{}
	l.faults.Clear()
	return ended, group.Wait()
}

// terminate terminates what was launched for the cluster, if anything runs.
func terminate(ctx context.Context, cluster string, aws *cloud.AWS) (ended bool, err error) {
	instances, err := aws.Launched(ctx, cluster)
	if err != nil {
		return false, err
	}
	var ids []string
	for _, i := range instances {
		if !i.Ended {
			ids = append(ids, i.ID)
		}
	}
	return len(ids) > 0, aws.Terminate(ctx, ids)
}
