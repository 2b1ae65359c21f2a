package system

import (
	"context"
	"errors"
	"fmt"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/kubeproxy"
	"github.com/spotdrill/spotdrill/framework/nodeimages"
	"github.com/spotdrill/spotdrill/kind"
)

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
	s.Environment["kube-proxy-image"] = held + " as " + ref
	return s.timed(r.String()+" in the nodes", func() error { return kubeproxy.Set(ctx, s.Cluster.Clientset, ref) })
}

// RestoreReleases makes the cluster run the versions again that it was created with.
func (s *System) RestoreReleases(ctx context.Context) error {
	s.abandonDNS()
	s.DNS.UseImage("")
	delete(s.Environment, "kube-proxy-image")
	return errors.Join(s.DNS.Restore(ctx), kubeproxy.Restore(ctx, s.Cluster.Clientset))
}
