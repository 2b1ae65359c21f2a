// Package run plays scenarios on a system and records their histories. It does not
// judge them, and does not decide what follows what: see session.
package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/recording"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Drill is one scenario to be played.
type Drill struct {
	Scenario scenarios.Scenario
	Set      scenarios.Set
	// Handlers are the installations of the drill: first that of the handler under test, then those
	// of the handlers that run next to it.
	Handlers []system.Installation
	Attempt  int    // from 1
	Dir      string // where the history goes

	// Progress, if set, gets every phase that begins and every notice with its
	// deadline, as they are recorded. It must return at once.
	Progress func(history.Event)
}

// under is the installation of the handler under test.
func (d Drill) under() *system.Installation { return &d.Handlers[0] }

// handler is the one under test.
func (d Drill) handler() handler.Description { return d.Handlers[0].Handler }

// Play is one drill that is being played, or two at the same time. The two must be able to
// share the cluster, see SharesWith: each has one of the three spot workers for itself, and
// the pods of both move to the third.
type Play struct {
	// Drills are those that are played.
	Drills []*Playing

	sys   *system.System
	audit recording.AuditMark // from which on the API server's audit log is theirs
}

// Begin begins the histories of drills, each in its Dir. Close must be called.
func Begin(sys *system.System, drills ...Drill) (*Play, error) {
	p := &Play{sys: sys}
	for _, d := range drills {
		r, err := newRunner(sys, d)
		if err != nil {
			return nil, errors.Join(err, p.Close(false))
		}
		r.requests = p.requests
		p.Drills = append(p.Drills, r)
	}
	for _, r := range p.Drills {
		r.beside = slices.DeleteFunc(slices.Clone(p.Drills), func(o *runner) bool { return o == r })
	}
	return p, nil
}

// Phase begins a phase of all drills.
func (p *Play) Phase(phase history.Phase) {
	for _, r := range p.Drills {
		r.announce(phase.Begins())
	}
}

// Failed records an error of the harness.
func (p *Play) Failed(err error) {
	p.recordAll(history.NewRunError(oneLine(err)))
}

func (p *Play) recordAll(e history.Event) {
	for _, r := range p.Drills {
		r.rec.Record(e)
	}
}

// Close ends the histories. One that is not complete proves nothing.
func (p *Play) Close(complete bool) error {
	var errs []error
	for _, r := range p.Drills {
		errs = append(errs, r.rec.Close(complete))
	}
	return errors.Join(errs...)
}

// String names the scenarios.
func (p *Play) String() string {
	var out []string
	for _, r := range p.Drills {
		out = append(out, r.Scenario.Name)
	}
	return strings.Join(out, " and ")
}

// Record starts the recording of all drills. When stop is called, all steps are over; it also
// records what the handlers requested of the API server.
func (p *Play) Record(ctx context.Context) (stop func(context.Context) error, err error) {
	var starts []recording.Start
	for _, r := range p.Drills {
		starts = append(starts, r.sources().Start)
	}
	stops, err := recording.StartAll(ctx, starts)
	return func(ctx context.Context) error {
		return errors.Join(recording.StopAll(ctx, stops), p.recordRequests(ctx))
	}, err
}

// SaveLogs saves the handlers' logs next to the histories.
func (p *Play) SaveLogs(ctx context.Context) error {
	var errs []error
	for _, r := range p.Drills {
		errs = append(errs, r.saveHandlerLogs(ctx))
	}
	return errors.Join(errs...)
}

// SaveState saves the cluster's state next to the histories, for a reader of a failure.
func (p *Play) SaveState(ctx context.Context) {
	for _, r := range p.Drills {
		r.saveState(ctx)
	}
}

// ClearQueue ends what the drills left to the handlers: messages, faults, and what metadata
// announces.
func (p *Play) ClearQueue(ctx context.Context) error {
	if p.sys.ServesMetadata() {
		// The service of a node that does not answer is asked again when the next drill is arranged.
		if err := p.sys.ClearMetadata(ctx); err != nil {
			p.sys.Log("    not all metadata could be cleared yet: %s", oneLine(err))
		}
	}
	return errors.Join(clearFaults(ctx, p.sys.Cluster), p.sys.AWS.Purge(ctx))
}

// Uninstall removes a handler under test that is not ready, or was moved or configured otherwise.
// After a disturbance its pods are replaced; its other objects stay.
func (p *Play) Uninstall(ctx context.Context) error {
	changed := slices.ContainsFunc(p.Drills, func(r *runner) bool { return r.Scenario.MovesHandler() || r.Scenario.Reconfigures() })
	if under := p.sys.Installed(history.UnderTest); under == nil || !under.Ready() || changed {
		return p.sys.Uninstall(ctx, history.UnderTest)
	}
	if slices.ContainsFunc(p.Drills, func(r *runner) bool { return r.Scenario.Disturbed() }) {
		p.sys.ReplacePods()
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
	repaired, err := p.sys.Restore(ctx)
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

// oneLine is an error as reports can show it.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
