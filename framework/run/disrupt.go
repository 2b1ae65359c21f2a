package run

import (
	"context"
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// disrupt does something to CoreDNS. It returns when the API has taken it, a drain
// when the pods are gone.
func (r *drilling) disrupt(ctx context.Context, d scenarios.Disrupt) error {
	if d.After > 0 {
		if err := r.sleepUntil(ctx, r.rec.Clock().Now()+d.After.D()); err != nil {
			return err
		}
	}
	node := ""
	if d.Node != "" {
		node = r.nodes[d.Node].Name
	}
	pods, err := r.Cluster.RunningDNS(ctx, node)
	if err != nil {
		return fmt.Errorf("disrupt CoreDNS: %w", err)
	}
	if len(pods) == 0 {
		return fmt.Errorf("disrupt CoreDNS: no pod of it runs on %q", node)
	}
	e := history.Event{Kind: history.DNSDisrupted, Reason: string(d.CoreDNS), Node: node}
	if d.Replicas > 0 {
		e.Numbers = history.Numbers{history.Replicas: float64(d.Replicas)}
	}
	r.rec.Record(e)
	switch d.CoreDNS {
	case history.DeleteDNSPods:
		err = together(ctx, each(pods, r.Cluster.DeletePod)...)
	case history.KillDNSPods:
		err = together(ctx, each(pods, r.Cluster.Kill)...)
	case history.RestartDNS:
		err = r.Cluster.RestartDNS(ctx)
	case history.DrainDNSNode:
		err = r.Cluster.Drain(ctx, node)
	case history.ScaleDNS:
		err = r.Cluster.ScaleDNS(ctx, d.Replicas)
	}
	if err != nil {
		return fmt.Errorf("disrupt CoreDNS: %s: %w", d.CoreDNS, err)
	}
	return nil
}

// each does something to every item.
func each[T any](items []T, do func(context.Context, T) error) []func(context.Context) error {
	out := make([]func(context.Context) error, len(items))
	for i, item := range items {
		out[i] = func(ctx context.Context) error { return do(ctx, item) }
	}
	return out
}
