package system

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/kubeproxy"
	"github.com/spotdrill/spotdrill/framework/nodeimages"
	"github.com/spotdrill/spotdrill/framework/objects"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/kind"
)

// WorkloadLabel marks the namespaces of workloads, which Restore deletes.
const WorkloadLabel = "spotdrill.dev/workload"

// proberLabel marks the Jobs and pods with which drills send queries and record them.
const proberLabel = "spotdrill.dev/part-of=probe"

// WorkloadNamespace names the namespace of the next drill's workload. Each drill gets
// another one: the previous one may take some seconds to be deleted.
func (s *System) WorkloadNamespace() string {
	s.workloads++
	return fmt.Sprintf("%s%d", s.workloadPrefix(), s.workloads)
}

func (s *System) workloadPrefix() string { return s.Namespace + "-workload-" }

// Joining are the nodes that a drill needs in addition to the fixed workers.
type Joining struct {
	Launches []cloud.Launch
	Fleet    int // virtual nodes
}

// Restore brings the cluster back to where a drill can start, with no launched nodes but
// these, and returns what it had to repair. The handler stays.
func (s *System) Restore(ctx context.Context, joining Joining) (repaired []string, err error) {
	if s.lane != "" {
		return nil, s.restoreLane(ctx)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.removeProbers(ctx) })
	group.Go(func() error { return s.removeWorkloads(ctx) })
	group.Go(func() (err error) { repaired, err = s.restoreNodes(ctx, joining); return err })
	err = group.Wait()
	return repaired, err
}

// restoreNodes restores the nodes, while no handler acts on a worker that is lost.
func (s *System) restoreNodes(ctx context.Context, joining Joining) (repaired []string, err error) {
	if err := s.Cluster.RemoveStatic(ctx); err != nil {
		return nil, err
	}
	leftovers := s.Handlers.leftovers()
	if err := s.Handlers.uninstallOthers(ctx); err != nil {
		return nil, err
	}
	if len(s.Handlers.all) == 0 {
		if err := s.Handlers.removeLeftovers(ctx); err != nil {
			return nil, err
		}
	}
	cleared, err := s.endLaunched(ctx, len(joining.Launches)+joining.Fleet > 0)
	if err != nil {
		return nil, err
	}
	lost, err := s.Cluster.Lost(ctx)
	if err != nil {
		return nil, err
	}
	for _, worker := range lost {
		instance, err := s.newInstance(ctx, worker)
		if err != nil {
			return nil, err
		}
		s.Cluster.Assign(worker, instance)
	}
	s.raiseParent(ctx)
	if err := s.Launches.launch(ctx, joining.Launches); err != nil {
		return nil, err
	}
	if err := s.joinFleet(ctx, joining.Fleet); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(s.Handlers.all, func(i *Installation) bool { return i.stopped && i.Handler.KnowsWorkers() }) {
		repaired, err = s.restoreWith(ctx, lost, leftovers)
		return append(cleared, repaired...), err
	}
	repaired, err = s.Cluster.Restore(ctx, lost, leftovers)
	repaired = append(cleared, repaired...)
	if err != nil {
		return repaired, err
	}
	// It would continue the drain of a node that is not clean.
	return repaired, s.Handlers.onEach(ctx, s.Handlers.resume)
}

// endLaunched ends the launched nodes, while no handler runs that launches others. A handler that has launched an instance which
// nobody has seen yet is only known by that instance: it would wait for its node for ever, and so would the pods.
func (s *System) endLaunched(ctx context.Context, stop bool) (cleared []string, err error) {
	for {
		for _, i := range s.Handlers.all {
			if err := s.Handlers.stop(ctx, i, stop); err != nil {
				return nil, err
			}
		}
		ended, err := s.Launches.clear(ctx)
		if err != nil {
			return nil, err
		}
		if ended {
			cleared = []string{"launched nodes ended"}
		}
		if !ended || stop {
			return cleared, nil
		}
		stop = true
	}
}

// raiseParent is repeated for each drill: systemd may reset the weight of a group of its.
func (s *System) raiseParent(ctx context.Context) {
	s.parentWeight = s.engine.RaiseParent(ctx, s.localStackName())
	s.priority = engine.RaisePriority()
	if s.awake == "" {
		s.awake = engine.KeepAwake()
	}
}

// restoreWith restores the nodes while a handler that has objects for workers starts. It is
// ready when the workers are.
func (s *System) restoreWith(ctx context.Context, lost []string, leftovers func(key string) bool) ([]string, error) {
	cleaned, err := s.Cluster.Clean(ctx, lost, leftovers)
	if err != nil {
		return cleaned, err
	}
	var repaired []string
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { repaired, err = s.Cluster.Restore(ctx, lost, leftovers); return err })
	group.Go(func() error { return s.Handlers.onEach(ctx, s.Handlers.resume) })
	err = group.Wait()
	return append(cleaned, repaired...), err
}

// Reset brings the cluster back to how it was created: no handler, CoreDNS with its
// original settings, and CoreDNS and kube-proxy at their own versions.
func (s *System) Reset(ctx context.Context) error {
	for _, i := range slices.Clone(s.Handlers.all) {
		if err := s.Handlers.Uninstall(ctx, i.Name); err != nil {
			return err
		}
	}
	s.abandonDNS()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if _, err := s.Restore(ctx, Joining{}); err != nil {
			return err
		}
		return s.namespacesGone(ctx, WorkloadLabel, handler.OwnerLabel)
	})
	group.Go(func() error { return s.RestoreReleases(ctx) })
	return group.Wait()
}

// newInstance starts another instance for a worker and terminates its current one.
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

func (s *System) removeProbers(ctx context.Context) error {
	background := metav1.DeletePropagationBackground
	ours := metav1.ListOptions{LabelSelector: proberLabel}
	if err := s.Cluster.Clientset.BatchV1().Jobs(Namespace).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, ours); err != nil {
		return fmt.Errorf("remove the probers: %w", err)
	}
	return s.Cluster.Objects().RemovePods(ctx, Namespace, ours, "the probers")
}

// removeWorkloads deletes the namespaces of all drills, of a lane those of its own, and waits until no pod is left
// in them. It does not wait for their other objects: nothing can be created in a
// namespace that is being deleted.
func (s *System) removeWorkloads(ctx context.Context) error {
	namespaces := s.Cluster.Clientset.CoreV1().Namespaces()
	list, err := namespaces.List(ctx, metav1.ListOptions{LabelSelector: WorkloadLabel})
	if err != nil {
		return fmt.Errorf("list the namespaces of drills: %w", err)
	}
	for _, ns := range list.Items {
		if s.lane != "" && !strings.HasPrefix(ns.Name, s.workloadPrefix()) {
			continue
		}
		if err := namespaces.Delete(ctx, ns.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete namespace %s: %w", ns.Name, err)
		}
		if err := s.Cluster.Objects().RemovePods(ctx, ns.Name, metav1.ListOptions{}, "the pods of namespace "+ns.Name); err != nil {
			return err
		}
	}
	return nil
}

// namespacesGone waits until the namespaces with any of the labels are deleted.
func (s *System) namespacesGone(ctx context.Context, labels ...string) error {
	for _, label := range labels {
		err := wait.Until(ctx, objects.StartTimeout, "the namespaces with label "+label+" to be gone", func(ctx context.Context) string {
			list, err := s.Cluster.Clientset.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: label})
			if err != nil {
				return err.Error()
			}
			if len(list.Items) > 0 {
				return fmt.Sprintf("%s is still there", list.Items[0].Name)
			}
			return ""
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// UseRelease makes the drills that follow run a part of the cluster, CoreDNS or
// kube-proxy, at another version. RestoreReleases and Reset undo it. A handler's
// release is a part of its description instead.
func (s *System) UseRelease(ctx context.Context, r kind.Release) error {
	of, nodes := string(r.Program), cluster.WorkerNames(s.opts.Cluster)
	switch r.Program {
	case kind.CoreDNS:
	case kind.KubeProxy:
		nodes = nil
		for _, n := range s.Cluster.Nodes {
			nodes = append(nodes, n.Name)
		}
	default:
		return fmt.Errorf("%s is no part of the cluster", r)
	}
	held, err := kind.ReleaseImage(ctx, s.engine, s.imageOptions(), r)
	if err != nil {
		return fmt.Errorf("the image of %s: %w", r, err)
	}
	ref, err := nodeimages.Load(ctx, s.engine, held, of, nodes)
	if err != nil {
		return err
	}
	if r.Program == kind.CoreDNS {
		s.abandonDNS()
		s.DNS.UseImage(ref)
		s.Environment["coredns"] = held + " as " + ref
		return nil
	}
	s.Environment[proxyImageKey] = held + " as " + ref
	return s.timed(r.String()+" in the nodes", func() error { return kubeproxy.Set(ctx, s.Cluster.Clientset, ref) })
}

// RestoreReleases makes the cluster run the versions again that it was created with.
func (s *System) RestoreReleases(ctx context.Context) error {
	s.abandonDNS()
	s.DNS.UseImage("")
	restored := errors.Join(s.DNS.Restore(ctx), kubeproxy.Restore(ctx, s.Cluster.Clientset))
	image, err := kubeproxy.Image(ctx, s.Cluster.Clientset)
	s.Environment[proxyImageKey] = image
	return errors.Join(restored, err)
}
