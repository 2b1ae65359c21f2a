package run

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/spotdrill/spotdrill/framework/clusterdns"
	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/nodes"
)

const (
	// scaleEvery is how often the size of the cluster is looked at.
	scaleEvery = time.Second
	// scaleDownEvery is the time between two steps down:
	// https://docs.aws.amazon.com/eks/latest/userguide/coredns-autoscaling.html.
	scaleDownEvery = 3 * time.Minute
)

// scaling scales CoreDNS with the size of the cluster.
type scaling struct {
	*drill
	clientset kubernetes.Interface
	dns       *clusterdns.CoreDNS
	stop      func() error // nil if there is no scaling
}

// start scales CoreDNS with the cluster until end, if the scenario has that. An error
// also ends the steps.
func (s *scaling) start(ctx context.Context) {
	if s.Scenario.CoreDNS.AutoScaling == (coredns.AutoScaling{}) {
		return
	}
	scaling, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		err := s.run(scaling)
		if scaling.Err() != nil {
			ended <- nil
			return
		}
		err = fmt.Errorf("scale CoreDNS: %w", err)
		s.broken <- err
		ended <- err
	}()
	s.stop = func() error {
		stop()
		return <-ended
	}
}

// end ends what start began, and returns its error.
func (s *scaling) end() error {
	if s.stop == nil {
		return nil
	}
	return s.stop()
}

// run stands in for the controller of EKS that scales the add-on coredns. That one also
// keeps the replicas for ten minutes after a peak, which is longer than a drill. It returns with
// an error, or when the context ends.
func (s *scaling) run(ctx context.Context) error {
	size := scaler{of: s.Scenario.CoreDNS.AutoScaling, replicas: s.Scenario.CoreDNS.Replicas}
	tick := time.NewTicker(scaleEvery)
	defer tick.Stop()
	for {
		nodes, cores, err := nodes.Size(ctx, s.clientset)
		if err != nil {
			return err
		}
		if size.next(nodes, cores, s.now()) {
			s.Record(history.NewDNSDisrupted(history.ScaleDNS, history.With(history.Numbers{history.Replicas: float64(size.replicas)}), history.Note(fmt.Sprintf("by auto scaling, for %s with %s", history.Count(nodes, "node"), history.Count(cores, "core")))))
			if err := s.dns.Scale(ctx, size.replicas); err != nil {
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
