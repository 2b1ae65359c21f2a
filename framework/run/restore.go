package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/scenarios"
)

// ClearQueue removes the messages, faults and announcements of metadata that the drills left.
func (p *Play) ClearQueue(ctx context.Context) error {
	if p.sys.Handlers.ServesMetadata() {
		// The service of a node that does not answer is asked again when the next drill is arranged.
		if err := p.sys.Metadata().Clear(ctx); err != nil {
			p.sys.Log("    not all metadata could be cleared yet: %s", oneLine(err))
		}
	}
	return errors.Join(clearProxy(ctx, p.pods()), p.sys.AWS.Purge(ctx))
}

// Uninstall removes a handler under test that is not ready, or was moved or configured otherwise.
// After a disturbance its pods are replaced; its other objects stay.
func (p *Play) Uninstall(ctx context.Context) error {
	changed := slices.ContainsFunc(p.Drills, func(r *Runner) bool { return r.Scenario.ChangesHandler() })
	if under := p.sys.Handlers.Installed(history.UnderTest); under == nil || !under.Ready() || changed {
		return p.sys.Handlers.Uninstall(ctx, history.UnderTest)
	}
	if slices.ContainsFunc(p.Drills, func(r *Runner) bool { return r.Scenario.Disturbed() }) {
		p.sys.Handlers.ReplacePods()
	}
	return nil
}

// Restore brings the cluster back to how it was before. CoreDNS gets the settings that the next
// drill needs, and stays as it is if they are nil; System.Reset at the end of the run restores it.
func (p *Play) Restore(ctx context.Context, next *coredns.Settings) error {
	// What is launched would not outlast the restore.
	if next != nil && next.Placement != coredns.Launched {
		p.sys.PrepareDNS(ctx, *next)
	}
	if err := p.startKubelets(ctx); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	repaired, err := p.sys.Restore(ctx, system.Joining{})
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	// The pods that keep the rules are gone now.
	if err := errors.Join(p.shutdownsAsBefore(ctx), p.removeVPCCNI(ctx), p.shrink(ctx)); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	p.recordAll(history.NewRestored(history.Note(strings.Join(repaired, ", "))))
	return nil
}

// removeVPCCNI removes from the nodes what the stand-in of the add-on vpc-cni has left there.
func (p *Play) removeVPCCNI(ctx context.Context) error {
	if slices.ContainsFunc(p.Drills, func(r *Runner) bool { return r.Scenario.Workload.SecurityGroups }) {
		return p.sys.Cluster.RemoveVPCCNI(ctx)
	}
	return nil
}

// shutdownsAsBefore turns off what SetShutdownGracePeriod has set, on nodes that run again.
func (p *Play) shutdownsAsBefore(ctx context.Context) error {
	var errs []error
	for _, r := range p.Drills {
		for name, down := range r.Scenario.ShutDown() {
			if node, ok := r.nodes[name]; ok && down.GracePeriod != 0 {
				errs = append(errs, p.sys.Cluster.SetShutdownGracePeriod(ctx, node.Name, 0, 0))
			}
		}
	}
	return errors.Join(errs...)
}

// startKubelets starts the kubelets that steps stopped.
func (p *Play) startKubelets(ctx context.Context) error {
	var errs []error
	for _, r := range p.Drills {
		for _, o := range r.Scenario.Actions(scenarios.OnKubelet, scenarios.Stop) {
			if node, ok := r.nodes[o.Node]; ok {
				errs = append(errs, p.sys.Cluster.StartKubelet(ctx, node.Name))
			}
		}
	}
	return errors.Join(errs...)
}

// shrink removes the virtual nodes, and what keeps them Ready.
func (p *Play) shrink(ctx context.Context) error {
	if !slices.ContainsFunc(p.Drills, func(r *Runner) bool { return r.Scenario.Grows() }) {
		return nil
	}
	if err := p.sys.Cluster.Spares().RemoveVirtual(ctx); err != nil {
		return err
	}
	return p.sys.StopKwok(ctx)
}
