package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// RestoreTimeout bounds putting everything back, also after a Ctrl-C.
const RestoreTimeout = 4 * time.Minute

// Drill is one scenario to be played.
type Drill struct {
	Scenario scenarios.Scenario
	Set      scenarios.Set
	Handler  handler.Description // the handler under test
	Attempt  int                 // from 1
	Dir      string              // where the history goes

	// Tell, where given, hears of every phase that begins and of every notice with
	// its deadline, as they are recorded. It must return at once.
	Tell func(history.Event)
	// Recording, where given, gets the recorder before anything is recorded.
	Recording func(*history.Recorder)
	// Ended, where given, is asked when the recording is over, with all of it on
	// disk but the last events, what is to become of the cluster.
	Ended func() Aftermath
}

// drilling is a drill in progress.
type drilling struct {
	*System
	Drill
	rec     *history.Recorder
	nodes   map[string]cluster.Node // by the scenario's names
	notices map[string]*sent        // by the step's name
	probers []probing               // none without a probe
	// broken tells why a stream of records ended early; there is room for all.
	broken chan error
}

// sent is what a notice or message step put into the queue.
type sent struct {
	notices, messages []string      // ids
	put, deadline     time.Duration // of a notice
}

// Play runs the scenario and leaves its history in Dir. Afterwards everything
// is as it was before, also when ctx ends early, unless Ended asks for another
// aftermath. An error means that the harness could not do its part; the history
// then says so too.
func (s *System) Play(ctx context.Context, d Drill) error {
	clock := history.NewClock()
	rec, err := history.Create(d.Dir, clock, history.Meta{
		Scenario: d.Scenario.Name, Set: string(d.Set), Attempt: d.Attempt,
		Handler: s.Meta(d.handler()), Environment: s.Environment,
	})
	if err != nil {
		return err
	}
	if d.Recording != nil {
		d.Recording(rec)
	}
	r := &drilling{System: s, Drill: d, rec: rec, notices: map[string]*sent{}, broken: make(chan error, 1+scenarios.MaxProbers)}
	played := r.play(ctx)
	if played != nil {
		played = errors.Join(played, s.Alive(context.WithoutCancel(ctx)))
		rec.Record(history.Event{Kind: history.RunError, Note: oneLine(played)})
	}
	r.phase("restore")
	after := r.ended()
	if after != PutBack {
		r.saveState(ctx)
	}
	left := after == SaveAndLeave
	var restored error
	if !left {
		restored = r.putBack(ctx)
	}
	if restored != nil {
		rec.Record(history.Event{Kind: history.RunError, Note: oneLine(restored)})
	}
	closed := rec.Close(played == nil && restored == nil && !left)
	if err := errors.Join(played, restored, closed); err != nil {
		return fmt.Errorf("scenario %s: %w", d.Scenario.Name, err)
	}
	return nil
}

// oneLine is an error as reports can show it.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// handler is the one that runs during this drill.
func (d Drill) handler() handler.Description {
	if d.Scenario.Handler == scenarios.HandlerNone {
		return handler.None()
	}
	return d.Handler
}

func (r *drilling) phase(name string) { r.tell(history.Event{Kind: history.RunPhase, Key: name}) }

// tell records an event and lets whoever watches the drill know.
func (r *drilling) tell(e history.Event) {
	r.rec.Record(e)
	if r.Tell != nil {
		r.Tell(e)
	}
}

func (r *drilling) play(ctx context.Context) error {
	r.phase("arrange")
	audit, err := r.Cluster.MarkAudit(ctx)
	if err != nil {
		return err
	}
	if err := r.arrange(ctx); err != nil {
		return fmt.Errorf("arrange: %w", err)
	}
	r.phase("record")
	stop, err := r.record(ctx)
	if err != nil {
		return fmt.Errorf("start recording: %w", err)
	}
	steps := r.steps(ctx)
	if steps == nil {
		r.phase("settle")
		steps = r.sleepUntil(ctx, r.rec.Clock().Now()+r.Scenario.Settle.D())
	}
	// Also a drill that was interrupted leaves what it has seen.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return errors.Join(steps, stop(ctx), r.recordUse(ctx, audit))
}

// stopTimeout bounds the end of the recording: the prober waits for answers that
// are still out.
const stopTimeout = 30 * time.Second

func (r *drilling) steps(ctx context.Context) error {
	if r.Scenario.Probe != nil {
		if err := r.baseline(ctx); err != nil {
			return fmt.Errorf("before the first step: %w", err)
		}
	}
	r.phase("steps")
	for i, step := range r.Scenario.Steps {
		if err := r.step(ctx, step); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

// arrange makes the cluster look as the scenario wants it.
func (r *drilling) arrange(ctx context.Context) error {
	if err := r.Restore(ctx); err != nil {
		return err
	}
	if err := r.clearFaults(ctx); err != nil {
		return err
	}
	if err := r.AWS.Purge(ctx); err != nil {
		return err
	}
	if err := r.Install(ctx, r.handler(), r.Scenario.Feature); err != nil {
		return err
	}
	dns := r.Scenario.CoreDNS
	err := r.Cluster.SetDNS(ctx, cluster.DNSSettings{
		Placement: string(dns.Placement), Replicas: dns.Replicas, Lameduck: dns.Lameduck.D(),
		ReadinessPeriod: dns.Readiness.Period.D(), FailureThreshold: dns.Readiness.FailureThreshold,
		GracePeriod: dns.GracePeriod.D(),
	})
	if err != nil {
		return err
	}
	if r.nodes, err = r.pickNodes(ctx); err != nil {
		return err
	}
	if err := r.startWorkload(ctx); err != nil {
		return err
	}
	if r.Scenario.Probe != nil {
		return r.startProbers(ctx)
	}
	return nil
}

// record starts the watcher, the proxy's record and the prober. What it returns
// ends them in an order that loses nothing.
func (r *drilling) record(ctx context.Context) (stop func(context.Context) error, err error) {
	watcher, err := r.Cluster.Watch(ctx, r.rec)
	if err != nil {
		return nil, err
	}
	for name, n := range r.nodes {
		r.rec.Record(history.Event{Kind: history.NodeRole, Key: name, Node: n.Name, Instance: n.Instance})
	}
	if err := r.recordRights(ctx); err != nil {
		watcher.Stop()
		return nil, err
	}
	for _, budget := range r.Scenario.Workload.Budgets {
		r.recordBudget(r.rec.Clock().Now(), budget.Pods, "", budget.MinAvailable)
	}
	stopQueue, err := r.recordQueue(ctx)
	if err != nil {
		watcher.Stop()
		return nil, err
	}
	stopProbers, err := r.recordProbers(ctx)
	if err != nil {
		stopQueue()
		watcher.Stop()
		return nil, err
	}
	return func(ctx context.Context) error {
		depth := r.recordDepth(ctx)
		probed := stopProbers(ctx)
		stopQueue()
		watcher.Stop()
		return errors.Join(depth, probed)
	}, nil
}

func (r *drilling) recordDepth(ctx context.Context) error {
	visible, invisible, err := r.AWS.Depth(ctx)
	if err != nil {
		return err
	}
	r.rec.Record(history.Event{Kind: history.QueueDepth, Numbers: map[string]float64{"visible": float64(visible), "invisible": float64(invisible)}})
	return nil
}

// putBack undoes the drill, however it ended. CoreDNS keeps its settings for the
// next scenario; Restore and RestoreDNS at the end of the run put them back.
func (r *drilling) putBack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), RestoreTimeout)
	defer cancel()
	cleared := r.clearFaults(ctx)
	logs := r.saveHandlerLog(ctx)
	if r.Scenario.Disturbed() {
		if err := r.Uninstall(ctx); err != nil {
			logs = errors.Join(logs, err)
		}
	}
	mended, err := r.restore(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("restore: %w", err), cleared, logs)
	}
	r.rec.Record(history.Event{Kind: history.Restored, Note: strings.Join(mended, ", ")})
	return errors.Join(cleared, logs)
}

// Restore brings the cluster back to where a drill can start.
func (s *System) Restore(ctx context.Context) error {
	_, err := s.restore(ctx)
	return err
}

func (s *System) restore(ctx context.Context) ([]string, error) {
	if err := s.removeProbers(ctx); err != nil {
		return nil, err
	}
	if err := s.removeWorkload(ctx); err != nil {
		return nil, err
	}
	if err := s.Cluster.RemoveStatic(ctx); err != nil {
		return nil, err
	}
	leftovers := handler.LeavesBehind
	if s.installed == nil {
		// One that an earlier run left would go on with what it was at.
		if err := s.Uninstall(ctx); err != nil {
			return nil, err
		}
	} else {
		leftovers = s.installed.LeavesBehind
		if err := s.pause(ctx); err != nil {
			return nil, err
		}
	}
	mended, err := s.Cluster.Restore(ctx, leftovers, s.newInstance)
	if err != nil {
		return mended, err
	}
	return mended, s.resume(ctx)
}
