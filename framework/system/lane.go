package system

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// laneMemory is what a lane takes of this machine's memory: a handler, a proxy, and what the control plane keeps of its nodes.
const laneMemory = 192 << 20

// LanesFit returns an error if so many lanes need more memory than this machine has available; it has the number that fits.
func LanesFit(lanes int) error { return lanesFit(lanes, engine.MemoryAvailable()) }

// lanesFit is LanesFit for an amount in bytes; 0 means that it is not known.
func lanesFit(lanes int, available uint64) error {
	fit := int(available / laneMemory)
	if lanes < 2 || available == 0 || lanes <= fit {
		return nil
	}
	return fmt.Errorf("%d lanes take %.1f GiB of memory and %.1f GiB is available: choose --lanes %d", lanes, float64(lanes)*laneMemory/(1<<30), float64(available)/(1<<30), max(1, fit))
}

// A lane is a system in the same cluster as others. Its handler, queue, AWS account, recording proxy and spot nodes, which
// are virtual, are its own, and so is what its drills do to them. The control plane, the on-demand worker and CoreDNS are
// those of all lanes: no drill may change them.

// Lane makes the lane of that number, from 1, with so many spot nodes. kwok must run, see StartKwok. End must be called, also
// after an error.
func (s *System) Lane(ctx context.Context, number, spot int) (*System, error) {
	l := newSystem(s.opts)
	l.lane = fmt.Sprintf("lane%d", number)
	l.Namespace, l.spot = Namespace+"-"+l.lane, spot
	l.engine, l.DNS, l.Image, l.NodeSystem = s.engine, s.DNS, s.Image, s.NodeSystem
	l.Cluster = s.Cluster.Lane(l.lane)
	l.AWS = s.AWS.In(fmt.Sprintf("%012d", number))
	l.Environment = maps.Clone(s.Environment)
	l.Environment["account"] = l.AWS.Account()
	l.Launches.cluster = l.Cluster
	h := l.Handlers
	h.cluster, h.aws, h.images, h.lane, h.namespace = l.Cluster, l.AWS, s.Handlers.images, l.lane, l.Namespace
	return l, wrap.Errorf(l.begin(ctx), "set %s up", l.lane)
}

// begin makes the lane's proxy, queue and nodes.
func (s *System) begin(ctx context.Context) error {
	if err := s.AWS.DeployStack(ctx, s.opts.Cluster); err != nil {
		return err
	}
	client := s.Cluster.Objects()
	if err := client.EnsureNamespace(ctx, s.Namespace, cluster.LaneLabel); err != nil {
		return err
	}
	if err := s.takeToken(ctx); err != nil {
		return err
	}
	if err := client.Create(ctx, manifests, "manifests/proxy-service.yaml", map[string]string{"NAMESPACE": s.Namespace}); err != nil {
		return err
	}
	if err := s.startProxy(ctx); err != nil {
		return err
	}
	return s.renewNodes(ctx)
}

// restoreLane brings a lane back to where a drill can start. The handler stays.
func (s *System) restoreLane(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.removeWorkloads(ctx) })
	group.Go(func() error {
		for _, i := range s.Handlers.all {
			if err := s.Handlers.stop(ctx, i, false); err != nil {
				return err
			}
		}
		if err := s.renewNodes(ctx); err != nil {
			return err
		}
		return s.Handlers.onEach(ctx, s.Handlers.resume)
	})
	return group.Wait()
}

// renewNodes gives the lane new nodes, of new instances.
func (s *System) renewNodes(ctx context.Context) error {
	if err := s.endInstances(ctx); err != nil {
		return err
	}
	started, err := s.AWS.RunInstances(ctx, s.opts.Cluster, s.Cluster.NextNodes(s.spot))
	if err != nil {
		return err
	}
	return s.Cluster.JoinLane(ctx, started)
}

// endInstances terminates the lane's instances.
func (s *System) endInstances(ctx context.Context) error {
	running, err := s.AWS.Instances(ctx, s.opts.Cluster)
	if err != nil {
		return err
	}
	return s.AWS.Terminate(ctx, slices.Sorted(maps.Values(running)))
}

// End removes a lane, and what its drills have left.
func (s *System) End(ctx context.Context) error {
	var errs []error
	for _, i := range slices.Clone(s.Handlers.all) {
		errs = append(errs, s.Handlers.Uninstall(ctx, i.Name))
	}
	errs = append(errs, s.removeWorkloads(ctx), s.Cluster.Spares().RemoveVirtual(ctx), s.endInstances(ctx), s.removeNamespace(ctx, s.Namespace))
	return wrap.Errorf(errors.Join(errs...), "end %s", s.lane)
}

func (s *System) removeNamespace(ctx context.Context, name string) error {
	err := s.Cluster.Clientset.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete namespace %s: %w", name, err)
	}
	return nil
}

// removeLanes removes what the lanes of a run that was killed have left. Their handlers and workloads go like all others.
func (s *System) removeLanes(ctx context.Context) error {
	list, err := s.Cluster.Clientset.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: cluster.LaneLabel})
	if err != nil {
		return fmt.Errorf("list the namespaces of lanes: %w", err)
	}
	for _, ns := range list.Items {
		if err := s.removeNamespace(ctx, ns.Name); err != nil {
			return err
		}
	}
	return s.namespacesGone(ctx, cluster.LaneLabel)
}

// InLane is the lane's name; empty for a system that is none.
func (s *System) InLane() string { return s.lane }

// Foreign reports whether a node or a namespace is that of another lane.
func (s *System) Foreign(name string) bool {
	of, ok := strings.CutPrefix(name, s.opts.Cluster+"-virtual-")
	if !ok {
		of, ok = strings.CutPrefix(name, Namespace+"-")
	}
	lane, _, _ := strings.Cut(of, "-")
	return ok && laneName.MatchString(lane) && lane != s.lane
}

var laneName = regexp.MustCompile(`^lane\d+$`)
