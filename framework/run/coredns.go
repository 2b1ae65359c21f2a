package run

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/clusterdns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/scenarios"
)

// coreDNS is the cluster's.
type coreDNS struct {
	*drill
	dns     *clusterdns.CoreDNS
	cluster *cluster.Cluster
}

// do does something to CoreDNS. It returns when the API has accepted it, and of the Corefile
// when all pods have read it.
func (c coreDNS) do(ctx context.Context, d scenarios.Do) error {
	node := ""
	if d.Node != "" {
		node = c.nodes[d.Node].Name
	}
	pods, err := c.dns.RunningPods(ctx, node)
	if err != nil {
		return fmt.Errorf("disrupt CoreDNS: %w", err)
	}
	if len(pods) == 0 {
		return fmt.Errorf("disrupt CoreDNS: none of its pods runs on %q", node)
	}
	e := history.NewDNSDisrupted(disruption(d), history.Node(node))
	if d.Replicas > 0 {
		e.Numbers = history.Numbers{history.Replicas: float64(d.Replicas)}
	}
	c.Record(e)
	switch disruption(d) {
	case history.DeleteDNSPods:
		err = inParallel(ctx, pods, c.cluster.DeletePod)
	case history.KillDNSPods:
		err = inParallel(ctx, pods, c.cluster.Kill)
	case history.RestartDNS:
		err = c.dns.Restart(ctx)
	case history.ScaleDNS:
		err = c.dns.Scale(ctx, d.Replicas)
	case history.MisplaceDNS:
		err = c.dns.Misplace(ctx)
	case history.ReloadDNS:
		err = c.editCorefile(ctx, pods, clusterdns.SlowReload())
	case history.EditLameduck:
		err = c.editCorefile(ctx, pods, clusterdns.EditedLameduck(d.Lameduck.D()))
	case history.BreakCorefile:
		err = c.editCorefile(ctx, pods, clusterdns.BrokenCorefile())
	}
	return wrap.Errorf(err, "disrupt CoreDNS: %s", disruption(d))
}

// editCorefile edits the Corefile and records when each pod has taken the edit, or refused it.
func (c coreDNS) editCorefile(ctx context.Context, pods []corev1.Pod, edit clusterdns.CorefileEdit) error {
	begun := c.now()
	return c.dns.EditCorefile(ctx, pods, edit, func(p *corev1.Pod) {
		c.Record(history.NewCorefileRead(p.Namespace+"/"+p.Name, history.With(history.Numbers{history.Took: (c.now() - begun).Seconds()})))
	})
}

// disruption is the history's word of what is done to CoreDNS.
func disruption(d scenarios.Do) history.Disruption {
	switch {
	case d.Placement != "":
		return history.MisplaceDNS
	case d.Corefile == scenarios.BrokenCorefile:
		return history.BreakCorefile
	case d.Corefile == scenarios.SlowCorefile:
		return history.ReloadDNS
	case d.Verb == scenarios.Configure:
		return history.EditLameduck
	}
	return map[scenarios.Verb]history.Disruption{
		scenarios.Delete: history.DeleteDNSPods, scenarios.Kill: history.KillDNSPods, scenarios.Restart: history.RestartDNS, scenarios.Scale: history.ScaleDNS,
	}[d.Verb]
}
