package run

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/spotdrill/spotdrill/framework/clusterdns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// disrupt does something to CoreDNS. It returns when the API has accepted it, and of the Corefile
// when all pods have read it.
func (r *runner) disrupt(ctx context.Context, d scenarios.Do) error {
	node := ""
	if d.Node != "" {
		node = r.nodes[d.Node].Name
	}
	pods, err := r.sys.DNS.RunningPods(ctx, node)
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
	r.rec.Record(e)
	switch disruption(d) {
	case history.DeleteDNSPods:
		err = inParallel(ctx, pods, r.sys.Cluster.DeletePod)
	case history.KillDNSPods:
		err = inParallel(ctx, pods, r.sys.Cluster.Kill)
	case history.RestartDNS:
		err = r.sys.DNS.Restart(ctx)
	case history.ScaleDNS:
		err = r.sys.DNS.Scale(ctx, d.Replicas)
	case history.MisplaceDNS:
		err = r.sys.DNS.Misplace(ctx)
	case history.ReloadDNS:
		err = r.editCorefile(ctx, pods, clusterdns.SlowReload())
	case history.EditLameduck:
		err = r.editCorefile(ctx, pods, clusterdns.EditedLameduck(d.Lameduck.D()))
	case history.BreakCorefile:
		err = r.editCorefile(ctx, pods, clusterdns.BrokenCorefile())
	}
	if err != nil {
		return fmt.Errorf("disrupt CoreDNS: %s: %w", disruption(d), err)
	}
	return nil
}

// editCorefile edits the Corefile and records when each pod has taken the edit, or refused it.
func (r *runner) editCorefile(ctx context.Context, pods []corev1.Pod, edit clusterdns.CorefileEdit) error {
	begun := r.rec.Clock().Now()
	return r.sys.DNS.EditCorefile(ctx, pods, edit, func(p *corev1.Pod) {
		r.rec.Record(history.NewCorefileRead(p.Namespace+"/"+p.Name, history.With(history.Numbers{history.Took: (r.rec.Clock().Now() - begun).Seconds()})))
	})
}
