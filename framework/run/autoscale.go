package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/scenarios"
)

const (
	// scaleEvery is how often the size of the cluster is looked at.
	scaleEvery = time.Second
	// scaleDownEvery is the time between two steps down:
	// https://docs.aws.amazon.com/eks/latest/userguide/coredns-autoscaling.html.
	scaleDownEvery = 3 * time.Minute
)

// startScaling scales CoreDNS with the cluster until endScaling, if the scenario has that. An error
// also ends the steps.
func (r *runner) startScaling(ctx context.Context) {
	if r.Scenario.CoreDNS.AutoScaling == (coredns.AutoScaling{}) {
		return
	}
	scaling, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		err := r.autoScale(scaling)
		if scaling.Err() != nil {
			ended <- nil
			return
		}
		err = fmt.Errorf("scale CoreDNS: %w", err)
		r.broken <- err
		ended <- err
	}()
	r.stopScaling = func() error {
		stop()
		return <-ended
	}
}

// endScaling ends what startScaling began, and returns its error.
func (r *runner) endScaling() error {
	if r.stopScaling == nil {
		return nil
	}
	return r.stopScaling()
}

// autoScale stands in for the controller of EKS that scales the add-on coredns. That one also
// keeps the replicas for ten minutes after a peak, which is longer than a drill. It returns with
// an error, or when the context ends.
func (r *runner) autoScale(ctx context.Context) error {
	s := scaler{of: r.Scenario.CoreDNS.AutoScaling, replicas: r.Scenario.CoreDNS.Replicas}
	tick := time.NewTicker(scaleEvery)
	defer tick.Stop()
	for {
		nodes, cores, err := nodes.Size(ctx, r.sys.Cluster.Clientset)
		if err != nil {
			return err
		}
		if s.next(nodes, cores, r.rec.Clock().Now()) {
			r.rec.Record(history.NewDNSDisrupted(history.ScaleDNS, history.With(history.Numbers{history.Replicas: float64(s.replicas)}), history.Note(fmt.Sprintf("by auto scaling, for %d nodes with %d cores", nodes, cores))))
			if err := r.sys.DNS.Scale(ctx, s.replicas); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// scaler is the state of auto scaling.
type scaler struct {
	of       coredns.AutoScaling
	replicas int
	down     time.Duration // the last step down; 0 if there was none
}

// next reports whether the replicas change for a size of the cluster, and changes them.
func (s *scaler) next(nodes, cores int, at time.Duration) bool {
	next := s.of.Next(s.replicas, s.of.Replicas(nodes, cores))
	if next < s.replicas {
		if s.down > 0 && at-s.down < scaleDownEvery {
			return false
		}
		s.down = at
	}
	changed := next != s.replicas
	s.replicas = next
	return changed
}

// grow makes virtual nodes join the cluster, or leave it.
func (r *runner) grow(ctx context.Context, g scenarios.Do) error {
	nodes, cores := g.VirtualNodes()
	r.announce(history.NewClusterGrown(history.With(history.Numbers{history.VirtualNodes: float64(nodes), history.Cores: float64(nodes * cores)})))
	if err := r.sys.Cluster.Spares().SetVirtual(ctx, nodes, cores); err != nil {
		return fmt.Errorf("%s: %w", g, err)
	}
	return nil
}

// shrink removes the virtual nodes, and what keeps them Ready.
func (p *Play) shrink(ctx context.Context) error {
	if !slices.ContainsFunc(p.Drills, func(r *runner) bool { return r.Scenario.Grows() }) {
		return nil
	}
	if err := p.sys.Cluster.Spares().RemoveVirtual(ctx); err != nil {
		return err
	}
	return p.sys.StopKwok(ctx)
}
