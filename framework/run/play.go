// Package run plays scenarios on a system and records their histories. It does not
// judge them, and does not decide what follows what: see session.
package run

import (
	"context"
	"errors"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/recording"
	"github.com/spotdrill/spotdrill/framework/system"
)

// Play is one drill that is being played, or several at the same time, whose claims must permit it
// (scenarios.Nodes.Conflict): each has the spot workers that it acts on for itself, and the pods of all move to
// the others.
type Play struct {
	// Drills are those that are played.
	Drills []*Runner

	sys   *system.System
	audit recording.AuditMark // from which on the API server's audit log is theirs
}

// Begin begins the histories of drills, each in its Dir. Close must be called.
func Begin(sys *system.System, drills ...Drill) (*Play, error) {
	p := &Play{sys: sys}
	for _, d := range drills {
		r, err := newRunner(sys, d, p.requests)
		if err != nil {
			return nil, errors.Join(err, p.Close(false))
		}
		p.Drills = append(p.Drills, r)
	}
	for _, r := range p.Drills {
		for _, o := range p.Drills {
			if o != r {
				r.alongside = append(r.alongside, o.drill)
			}
		}
	}
	return p, nil
}

// pods are our own.
func (p *Play) pods() pods { return podsOfSystem(p.sys) }

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
		r.Record(e)
	}
}

// Close ends the histories. One that is not complete proves nothing.
func (p *Play) Close(complete bool) error {
	var errs []error
	for _, r := range p.Drills {
		errs = append(errs, r.Close(complete))
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
		errs = append(errs, r.handlers.saveLogs(ctx))
	}
	return errors.Join(errs...)
}

// SaveState saves the cluster's state next to the histories, for a reader of a failure. What is
// missing changes no verdict, so it is only logged.
func (p *Play) SaveState(ctx context.Context) {
	for _, r := range p.Drills {
		if err := r.saveState(ctx); err != nil {
			p.sys.Log("    the cluster's state could not be saved completely: %s", oneLine(err))
		}
	}
}

// oneLine is an error as reports can show it.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// requests are what the handler under test requested of the API server since the drills began;
// none if there is no handler.
func (p *Play) requests(ctx context.Context) (recording.Requests, error) {
	return p.requestsOf(ctx, p.Drills[0].under())
}

// requestsOf are what the handler of an installation requested since the drills began.
func (p *Play) requestsOf(ctx context.Context, i *system.Installation) (recording.Requests, error) {
	user, err := p.sys.Handlers.InCluster(i).User(ctx)
	if err != nil || user == "" {
		return recording.Requests{}, err
	}
	return p.sys.AuditLog().Since(ctx, p.audit, user)
}

// recordRequests records what the handlers requested of the API server. The rights that
// the one under test used cannot be split by drill, so only the first drill records them.
func (p *Play) recordRequests(ctx context.Context) error {
	first := p.Drills[0].handlers
	requests, err := p.requests(ctx)
	if requests.User == "" {
		return err
	}
	for _, e := range requests.Used {
		first.Record(e)
	}
	objects, unknown := first.workerObjects(ctx)
	for _, r := range p.Drills {
		r.handlers.recordChanges(requests, objects, history.UnderTest)
	}
	return errors.Join(err, unknown, p.recordOthers(ctx))
}

// recordOthers records what the other handlers changed. There is one drill then.
func (p *Play) recordOthers(ctx context.Context) error {
	first := p.Drills[0].handlers
	var errs []error
	for n := range first.Handlers[1:] {
		other := &first.Handlers[n+1]
		requests, err := p.requestsOf(ctx, other)
		first.recordChanges(requests, nil, other.Name)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
