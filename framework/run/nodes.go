package run

import (
	"context"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/kind"
	"github.com/spotdrill/spotdrill/scenarios"
)

// operator does to nodes what an operator or the cloud does.
type operator struct {
	*drill
	cluster  *cluster.Cluster
	handlers *system.Handlers // which set labels and taints on nodes
}

// prepare brings the nodes into the state that the scenario begins with.
func (o operator) prepare(ctx context.Context) error {
	for name, pick := range o.Scenario.Nodes {
		for _, state := range pick.Prepared.States() {
			if state.Action == string(history.PreparedShutdown) {
				continue // below
			}
			if err := nodes.Prepare(ctx, o.cluster.Clientset, o.nodes[name].Name, state); err != nil {
				return err
			}
		}
	}
	for name, down := range o.Scenario.ShutDown() {
		if err := o.cluster.SetShutdownGracePeriod(ctx, o.nodes[name].Name, down.GracePeriod.D(), down.CriticalPods.D()); err != nil {
			return err
		}
	}
	return nil
}

// recordPrepared records that state. The watch has recorded what it found by then.
func (o operator) recordPrepared() {
	for name, pick := range o.Scenario.Nodes {
		for _, state := range pick.Prepared.States() {
			state.Node = o.nodes[name].Name
			o.Record(state)
		}
	}
}

// do does to a node what an operator or the cloud does.
func (o operator) do(ctx context.Context, d scenarios.Do) error {
	node := o.nodes[d.Node]
	if d.Verb == scenarios.Drain && d.Meanwhile {
		d.Meanwhile = false
		o.meanwhile.Go(func() error { return o.do(ctx, d) })
		return nil
	}
	o.announce(history.NewOperatorActed(d.Name, operation(d), node.Name, history.Instance(node.Instance)))
	var err error
	switch operation(d) {
	case history.DrainNode:
		err = o.drain(ctx, node.Name, d)
	case history.UncordonNode:
		err = nodes.Uncordon(ctx, o.cluster.Clientset, node.Name)
	case history.TouchNode:
		err = nodes.Touch(ctx, o.cluster.Clientset, node.Name)
	case history.DeletePods:
		err = nodes.DeletePods(ctx, o.cluster.Clientset, o.namespace, node.Name)
	case history.ReadmitNode:
		err = o.handlers.Readmit(ctx, node.Name)
	case history.DeleteNode:
		err = nodes.Delete(ctx, o.cluster.Clientset, node.Name)
	case history.RejoinNode:
		err = o.cluster.Rejoin(ctx, node.Name, kind.ProviderID(node.Zone, node.Instance))
	case history.RejoinNoID:
		err = o.cluster.Rejoin(ctx, node.Name, "")
	case history.StopKubelet:
		err = o.cluster.StopKubelet(ctx, node.Name)
	case history.StartAgain:
		err = o.cluster.StartAgain(ctx, node.Name)
	case history.Uninitialize:
		err = o.handlers.Uninitialize(ctx, o.under(), node.Name)
	case history.Initialize:
		err = o.handlers.Initialize(ctx, o.under(), node.Name)
	}
	return wrap.Errorf(err, "operate: %s", operation(d))
}

// drain drains a node and records what kubectl prints. What it could not evict in time is for the
// checks to judge, or is deleted.
func (o operator) drain(ctx context.Context, node string, d scenarios.Do) error {
	say := func(line string) {
		o.Record(history.NewOperatorPrinted(operation(d), node, line))
	}
	options := nodes.DrainOptions{Timeout: d.Timeout.D(), Print: say}
	err := nodes.Drain(ctx, o.cluster.Clientset, node, options)
	if err == nil || ctx.Err() != nil {
		return err
	}
	say(oneLine(err))
	if !d.Force {
		return nil
	}
	say("the pods that are left are deleted")
	options.Delete = true
	return nodes.Drain(ctx, o.cluster.Clientset, node, options)
}

// operation is the history's word of what is done to a node, its kubelet, its instance or its pods.
func operation(d scenarios.Do) history.Operation {
	switch {
	case d.Target == scenarios.OnWorkload:
		return history.DeletePods
	case d.Verb == scenarios.Uncordon && d.Untaint:
		return history.ReadmitNode
	case d.Verb == scenarios.Join && d.WithoutProviderID:
		return history.RejoinNoID
	}
	return map[scenarios.Verb]history.Operation{
		scenarios.Drain: history.DrainNode, scenarios.Uncordon: history.UncordonNode, scenarios.Delete: history.DeleteNode,
		scenarios.Join: history.RejoinNode, scenarios.Label: history.Initialize,
		scenarios.Unlabel: history.Uninitialize, scenarios.Touch: history.TouchNode, scenarios.Stop: history.StopKubelet, scenarios.Start: history.StartAgain,
	}[d.Verb]
}

// grow makes virtual nodes join the cluster, or leave it.
func (o operator) grow(ctx context.Context, g scenarios.Do) error {
	nodes, cores := g.VirtualNodes()
	o.announce(history.NewClusterGrown(history.With(history.Numbers{history.VirtualNodes: float64(nodes), history.Cores: float64(nodes * cores)})))
	return wrap.Errorf(o.cluster.Spares().SetVirtual(ctx, nodes, cores), "%s", g)
}
