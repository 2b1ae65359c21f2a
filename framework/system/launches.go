package system

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/launch"
	"github.com/spotdrill/spotdrill/framework/nodeimages"
	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/kind"
)

// startLaunches parks the spare workers, and makes nodes of what is launched from now on if
// the options require spare workers: to look for it takes processor time.
func (s *System) startLaunches(ctx context.Context) error {
	spares, err := s.Cluster.Spares().Names()
	if err != nil || len(spares) == 0 {
		return err
	}
	return s.timed("spare workers", func() error {
		launches, err := launch.Start(ctx, s.Cluster, s.AWS, s.opts.Virtual, s.opts.Log)
		if err != nil {
			return err
		}
		if s.opts.Spares == 0 {
			launches.Close()
			return nil
		}
		s.Launches.controller = launches
		return nil
	})
}

// Launches makes nodes of the instances that are launched for the cluster, if it has spare workers.
type Launches struct {
	cluster    *cluster.Cluster
	controller *launch.Controller // nil without spare workers
	drill      []cluster.Node     // that were launched for the current drill
	fleet      []cluster.Node     // the virtual nodes of the current drill
}

func (l *Launches) active() bool {
	return len(l.fleet) > 0 || l.controller != nil && l.controller.Active()
}

func (l *Launches) close() {
	if l.controller != nil {
		l.controller.Close()
	}
}

// kwok is the release that keeps virtual nodes Ready, and reports their pods as running.
var kwok = kind.Release{Program: kind.Kwok, Version: "v0.8.0"}

// loadKwok loads the image of kwok into the nodes.
func (s *System) loadKwok(ctx context.Context) error {
	held, err := kind.ReleaseImage(ctx, s.engine, s.imageOptions(), kwok)
	if err != nil {
		return err
	}
	return s.timed("kwok's image in the nodes", func() (err error) {
		s.kwok, err = nodeimages.Load(ctx, s.engine, held, "kwok", cluster.WorkerNames(s.opts.Cluster))
		return err
	})
}

// StartKwok starts kwok, in place of one of an earlier run. Its image must be in the nodes.
func (s *System) StartKwok(ctx context.Context) error {
	values := map[string]string{"NAMESPACE": Namespace, "IMAGE": s.kwok}
	if err := s.Cluster.Objects().Apply(ctx, manifests, "manifests/kwok.yaml", values); err != nil {
		return err
	}
	return s.Cluster.Objects().DeploymentReady(ctx, Namespace, "kwok")
}

// StopKwok removes kwok: nothing is to run next to a drill that does not need it.
func (s *System) StopKwok(ctx context.Context) error {
	err := s.Cluster.Clientset.AppsV1().Deployments(Namespace).Delete(ctx, "kwok", metav1.DeleteOptions{})
	return wrap.Errorf(client.IgnoreNotFound(err), "remove kwok")
}

// clear ends every launched node, and reports whether there was one, or an instance that becomes one.
func (l *Launches) clear(ctx context.Context) (ended bool, err error) {
	if l.controller == nil {
		return false, nil
	}
	active := l.active()
	l.drill = nil
	ended, err = l.controller.Clear(ctx)
	return ended || active, err
}

// launch launches the nodes that a drill requires, one after the other: the order of their
// names is that of the launches.
func (l *Launches) launch(ctx context.Context, wanted []cloud.Launch) error {
	if len(wanted) > 0 && l.controller == nil {
		return fmt.Errorf("launch %s: the system was brought up without spare workers", history.Count(len(wanted), "node"))
	}
	for _, as := range wanted {
		node, err := l.controller.Launch(ctx, as)
		if err != nil {
			return err
		}
		l.drill = append(l.drill, node)
	}
	return nil
}

// joinFleet makes so many virtual nodes join the cluster, each of an instance of its own, in place of those of the last drill.
// No handler that has objects for them may run.
func (s *System) joinFleet(ctx context.Context, size int) error {
	if len(s.Launches.fleet) > 0 || size > 0 {
		if err := s.endFleet(ctx); err != nil {
			return err
		}
	}
	if size == 0 {
		return nil
	}
	return s.timed(history.Count(size, "virtual node"), func() error {
		if err := s.StartKwok(ctx); err != nil {
			return err
		}
		instances, err := s.AWS.RunInstances(ctx, s.opts.Cluster, s.Cluster.Spares().VirtualNames(size))
		if err != nil {
			return errors.Join(err, s.AWS.Terminate(context.WithoutCancel(ctx), slices.Sorted(maps.Values(instances))))
		}
		s.Launches.fleet, err = s.Cluster.Spares().JoinFleet(ctx, instances)
		return err
	})
}

// endFleet removes the virtual nodes of a drill, and of a run that was killed, and terminates their instances.
func (s *System) endFleet(ctx context.Context) error {
	s.Launches.fleet = nil
	if err := s.Cluster.Spares().RemoveVirtual(ctx); err != nil {
		return err
	}
	running, err := s.AWS.Instances(ctx, s.opts.Cluster)
	if err != nil {
		return err
	}
	maps.DeleteFunc(running, func(name, _ string) bool { return !s.Cluster.IsVirtual(name) })
	return s.AWS.Terminate(ctx, slices.Sorted(maps.Values(running)))
}

// Fleet are the virtual nodes that the last Restore made join, in their order.
func (l *Launches) Fleet() []cluster.Node { return l.fleet }

// OfDrill are the nodes that the last Restore launched, in their order.
func (l *Launches) OfDrill() []cluster.Node { return l.drill }

// Others are the nodes of all other launched instances, such as the handler's.
func (l *Launches) Others(ctx context.Context) ([]cluster.Node, error) {
	if l.controller == nil {
		return nil, nil
	}
	joined, err := l.controller.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	var out []cluster.Node
	for _, n := range joined {
		if slices.ContainsFunc(l.drill, func(ours cluster.Node) bool { return ours.Name == n.Name }) {
			continue
		}
		capacity, err := nodes.CapacityOf(ctx, l.cluster.Clientset, n.Name)
		if err != nil {
			return nil, err
		}
		n.Capacity = capacity
		out = append(out, n)
	}
	return out, nil
}

// Reclaim takes a node's instance at the deadline of a notice. A launched instance is terminated as
// well. If it was terminated before, its worker may be another instance by now, and stays.
func (l *Launches) Reclaim(ctx context.Context, n cluster.Node) error {
	if l.controller == nil || slices.ContainsFunc(l.cluster.Nodes, func(fixed cluster.Node) bool { return fixed.Name == n.Name }) {
		return l.cluster.Reclaim(ctx, n.Name)
	}
	return l.controller.End(ctx, n.Instance)
}

// Record passes on the events of launched instances, until stop.
func (l *Launches) Record(record func(history.Event)) (stop func()) {
	if l.controller == nil {
		return func() {}
	}
	return l.controller.Record(record)
}

// Fail begins a fault of what is launched from now on. It ends with the drill.
func (l *Launches) Fail(f fault.Fault) error {
	if l.controller == nil {
		return errors.New("the system was brought up without spare workers")
	}
	return l.controller.Begin(f)
}
