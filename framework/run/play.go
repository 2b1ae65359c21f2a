// Package run plays scenarios on a system and records their histories. It does not
// judge them.
package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Drill is one scenario to be played.
type Drill struct {
	Scenario scenarios.Scenario
	Set      scenarios.Set
	Handler  handler.Description // the handler under test
	// Second is the handler that runs beside it; nil if there is none.
	Second  *handler.Description
	Attempt int    // from 1
	Dir     string // where the history goes

	// Progress, if set, gets every phase that begins and every notice with its
	// deadline, as they are recorded. It must return at once.
	Progress func(history.Event)
	// Recording, if set, gets the recorder before anything is recorded.
	Recording func(*history.Recorder)
	// Decided, if set, reports whether what was recorded so far decides these checks. Their
	// time is then not awaited.
	Decided func([]scenarios.Check) bool
	// Ended, if set, decides what happens to the cluster. It is called when the
	// recording is over and on disk, except for the last events.
	Ended func() Aftermath
	// Next, if set, returns the settings of CoreDNS that the next drill probably needs, or
	// nil. It is called after Ended.
	Next func() *coredns.Settings
}

// handler is the one that runs during this drill.
func (d Drill) handler() handler.Description {
	if d.Scenario.Handler == scenarios.HandlerNone {
		return handler.None()
	}
	return d.Handler
}

// Play runs scenarios and records the history of each in its Dir. Two are run at the
// same time, and must be able to share the cluster, see SharesWith: each has one of
// the three spot workers for itself, and the pods of both move to the third. Afterwards
// the cluster is as it was before, also when ctx ends early, unless an Ended decides
// otherwise. An error means that the harness could not do its part; the histories
// record it too.
func Play(ctx context.Context, sys *system.System, drills ...Drill) error {
	p := players{sys: sys}
	for _, d := range drills {
		r, err := newRunner(sys, d)
		if err != nil {
			return errors.Join(err, p.close(false))
		}
		r.requests = p.requests
		p.all = append(p.all, r)
	}
	for _, r := range p.all {
		r.beside = slices.DeleteFunc(slices.Clone(p.all), func(o *runner) bool { return o == r })
	}
	if err := p.course().run(ctx); err != nil {
		return fmt.Errorf("scenario %s: %w", p.names(), err)
	}
	return nil
}

// players are the drills that are played at the same time.
type players struct {
	sys   *system.System
	all   []*runner
	audit cluster.AuditMark // from which on the API server's audit log is theirs
}

func (p *players) course() course {
	return course{
		phase:   p.phase,
		arrange: p.arrange,
		record:  p.record,
		steps: func(ctx context.Context) error {
			return inParallel(ctx, p.all, func(ctx context.Context, r *runner) error { return r.steps(ctx) })
		},
		requests:   p.recordRequests,
		alive:      p.sys.Alive,
		failed:     func(err error) { p.recordAll(history.NewRunError(oneLine(err))) },
		aftermath:  p.aftermath,
		clearQueue: p.clearQueue,
		uninstall:  p.uninstall,
		restore:    p.restore,
		close:      p.close,
	}
}

// phase begins a phase of all.
func (p *players) phase(phase history.Phase) {
	for _, r := range p.all {
		r.announce(phase.Begins())
	}
}

func (p *players) recordAll(e history.Event) {
	for _, r := range p.all {
		r.rec.Record(e)
	}
}

func (p *players) close(complete bool) error {
	var errs []error
	for _, r := range p.all {
		errs = append(errs, r.rec.Close(complete))
	}
	return errors.Join(errs...)
}

func (p *players) names() string {
	var out []string
	for _, r := range p.all {
		out = append(out, r.Scenario.Name)
	}
	return strings.Join(out, " beside ")
}

// record starts the recording of all. All steps are over when stop is called.
func (p *players) record(ctx context.Context) (stop stopFunc, err error) {
	var starts []startFunc
	for _, r := range p.all {
		starts = append(starts, r.sources().start)
	}
	stops, err := startAll(ctx, starts)
	return func(ctx context.Context) error { return stopAll(ctx, stops) }, err
}

// aftermath saves what is needed of the cluster, and reports whether to leave it as it
// is.
func (p *players) aftermath(ctx context.Context) (leave bool, err error) {
	for _, r := range p.all {
		err = errors.Join(err, r.saveHandlerLog(ctx))
		after := r.ended()
		if after != PutBack {
			r.saveState(ctx)
		}
		leave = leave || after == SaveAndLeave
	}
	return leave, err
}

func (p *players) clearQueue(ctx context.Context) error {
	if p.sys.ServesMetadata() {
		// The service of a node that does not answer is asked again when the next drill is arranged.
		if err := p.sys.ClearMetadata(ctx); err != nil {
			p.sys.Log("    not all metadata could be cleared yet: %s", oneLine(err))
		}
	}
	return errors.Join(clearFaults(ctx, p.sys.Cluster), p.sys.AWS.Purge(ctx))
}

// uninstall removes a handler that is not ready, or was moved or configured otherwise. The
// next scenario must not find the pods of one that was disturbed either, but the rest of it.
func (p *players) uninstall(ctx context.Context) error {
	changed := slices.ContainsFunc(p.all, func(r *runner) bool { return r.Scenario.MovesHandler() || r.Scenario.Reconfigures() })
	if _, ready := p.sys.Installed(); !ready || changed {
		return p.sys.Uninstall(ctx)
	}
	if slices.ContainsFunc(p.all, func(r *runner) bool { return r.Scenario.Disturbed() }) {
		p.sys.Renew()
	}
	return nil
}

// restore leaves CoreDNS as it is set, or is needed next; System.Finish at the end of the
// run puts it back.
func (p *players) restore(ctx context.Context) error {
	if p.all[0].Next != nil {
		// What is launched would not outlast the restore.
		if next := p.all[0].Next(); next != nil && next.Placement != coredns.Launched {
			p.sys.PrepareDNS(ctx, *next)
		}
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
