package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/kind"
	"github.com/spotdrill/spotdrill/scenarios"
)

// prepareNodes brings the nodes into the state that the scenario begins with.
func (r *runner) prepareNodes(ctx context.Context) error {
	for name, pick := range r.Scenario.Nodes {
		for _, state := range pick.Prepared.States() {
			if state.Action == string(history.PreparedShutdown) {
				continue // below
			}
			if err := nodes.Prepare(ctx, r.sys.Cluster.Clientset, r.nodes[name].Name, state); err != nil {
				return err
			}
		}
	}
	for name, grace := range r.Scenario.ShutDown() {
		if err := r.sys.Cluster.SetShutdownGracePeriod(ctx, r.nodes[name].Name, grace); err != nil {
			return err
		}
	}
	return nil
}

// recordPrepared records that state. The watch has recorded what it found by then.
func (r *runner) recordPrepared() {
	for name, pick := range r.Scenario.Nodes {
		for _, state := range pick.Prepared.States() {
			state.Node = r.nodes[name].Name
			r.rec.Record(state)
		}
	}
}

// operate does to a node what an operator or the cloud does.
func (r *runner) operate(ctx context.Context, o scenarios.Do) error {
	node := r.nodes[o.Node]
	if o.Verb == scenarios.Drain && o.Meanwhile {
		o.Meanwhile = false
		r.meanwhile.Go(func() error { return r.operate(ctx, o) })
		return nil
	}
	r.announce(history.NewOperatorActed(o.Name, operation(o), node.Name, history.Instance(node.Instance)))
	var err error
	switch operation(o) {
	case history.DrainNode:
		err = r.drain(ctx, node.Name, o)
	case history.UncordonNode:
		err = nodes.Uncordon(ctx, r.sys.Cluster.Clientset, node.Name)
	case history.ReadmitNode:
		err = r.sys.Readmit(ctx, node.Name)
	case history.DeleteNode:
		err = nodes.Delete(ctx, r.sys.Cluster.Clientset, node.Name)
	case history.RejoinNode:
		err = r.sys.Cluster.Rejoin(ctx, node.Name, kind.ProviderID(node.Zone, node.Instance))
	case history.RejoinNoID:
		err = r.sys.Cluster.Rejoin(ctx, node.Name, "")
	case history.StopKubelet:
		err = r.sys.Cluster.StopKubelet(ctx, node.Name)
	case history.StartAgain:
		err = r.sys.Cluster.StartAgain(ctx, node.Name)
	case history.Uninitialize:
		err = r.sys.Uninitialize(ctx, r.under(), node.Name)
	case history.Initialize:
		err = r.sys.Initialize(ctx, r.under(), node.Name)
	}
	if err != nil {
		return fmt.Errorf("operate: %s: %w", operation(o), err)
	}
	return nil
}

// shutdownsAsBefore turns off what SetShutdownGracePeriod has set, on nodes that run again.
func (p *Play) shutdownsAsBefore(ctx context.Context) error {
	var errs []error
	for _, r := range p.Drills {
		for name, grace := range r.Scenario.ShutDown() {
			if node, ok := r.nodes[name]; ok && grace != 0 {
				errs = append(errs, r.sys.Cluster.SetShutdownGracePeriod(ctx, node.Name, 0))
			}
		}
	}
	return errors.Join(errs...)
}

// drain drains a node and records what kubectl prints. What it could not evict in time is for the
// checks to judge, or is deleted.
func (r *runner) drain(ctx context.Context, node string, o scenarios.Do) error {
	say := func(line string) {
		r.rec.Record(history.NewOperatorSaid(operation(o), node, line))
	}
	options := nodes.DrainOptions{Timeout: o.Timeout.D(), Said: say}
	err := nodes.Drain(ctx, r.sys.Cluster.Clientset, node, options)
	if err == nil || ctx.Err() != nil {
		return err
	}
	say(oneLine(err))
	if !o.Force {
		return nil
	}
	say("the pods that are left are deleted")
	options.Delete = true
	return nodes.Drain(ctx, r.sys.Cluster.Clientset, node, options)
}

// startKubelets starts the kubelets that steps stopped.
func (p *Play) startKubelets(ctx context.Context) error {
	var errs []error
	for _, r := range p.Drills {
		for _, o := range r.Scenario.Actions(scenarios.OnKubelet, scenarios.Stop) {
			if node, ok := r.nodes[o.Node]; ok {
				errs = append(errs, r.sys.Cluster.StartKubelet(ctx, node.Name))
			}
		}
	}
	return errors.Join(errs...)
}
