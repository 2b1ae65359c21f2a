package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// restoreTimeout bounds putting everything back, also after a Ctrl-C.
const restoreTimeout = 4 * time.Minute

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
	rec       *history.Recorder
	beside    []*drilling             // those that are in progress at the same time
	namespace string                  // of its workload
	nodes     map[string]cluster.Node // by the scenario's names
	notices   map[string]*sent        // by the step's name
	probers   []probing               // none without a probe
	// broken tells why a stream of records ended early; there is room for all.
	broken chan error
}

// sent is what a notice or message step put into the queue.
type sent struct {
	notices, messages []string      // ids
	put, deadline     time.Duration // of a notice
}

// Play runs scenarios and leaves the history of each in its Dir. Two are run at the
// same time, and must share the cluster as SharesWith says they can: each has one of
// the three spot workers for itself, and the pods of both move to the one that is
// left. Afterwards everything is as it was before, also when ctx ends early,
// unless an Ended asks for another aftermath. An error means that the harness could
// not do its part; the histories then say so too.
func (s *System) Play(ctx context.Context, drills ...Drill) error {
	var all []*drilling
	for _, d := range drills {
		r, err := s.begin(d)
		if err != nil {
			return errors.Join(err, closeAll(all, false))
		}
		all = append(all, r)
	}
	for _, r := range all {
		r.beside = slices.DeleteFunc(slices.Clone(all), func(o *drilling) bool { return o == r })
	}
	played := s.play(ctx, all)
	if played != nil {
		played = errors.Join(played, s.Alive(context.WithoutCancel(ctx)))
		recordAll(all, history.Event{Kind: history.RunError, Note: oneLine(played)})
	}
	phase(all, "restore")
	left := false
	var restored error
	for _, r := range all {
		restored = errors.Join(restored, r.saveHandlerLog(ctx))
		after := r.ended()
		if after != PutBack {
			r.saveState(ctx)
		}
		left = left || after == SaveAndLeave
	}
	if !left {
		restored = errors.Join(restored, s.putBack(ctx, all))
	}
	if restored != nil {
		recordAll(all, history.Event{Kind: history.RunError, Note: oneLine(restored)})
	}
	closed := closeAll(all, played == nil && restored == nil && !left)
	if err := errors.Join(played, restored, closed); err != nil {
		return fmt.Errorf("scenario %s: %w", names(all), err)
	}
	return nil
}

// begin begins a drill's history.
func (s *System) begin(d Drill) (*drilling, error) {
	clock := history.NewClock()
	rec, err := history.Create(d.Dir, clock, history.Meta{
		Scenario: d.Scenario.Name, Set: string(d.Set), Attempt: d.Attempt,
		Handler: s.Meta(d.handler()), Environment: s.Environment,
	})
	if err != nil {
		return nil, err
	}
	if d.Recording != nil {
		d.Recording(rec)
	}
	return &drilling{
		System: s, Drill: d, rec: rec, namespace: s.newNamespace(),
		nodes: map[string]cluster.Node{}, notices: map[string]*sent{}, broken: make(chan error, 1+scenarios.MaxProbers),
	}, nil
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

// tell records an event and lets whoever watches the drill know.
func (r *drilling) tell(e history.Event) {
	r.rec.Record(e)
	if r.Tell != nil {
		r.Tell(e)
	}
}

func (s *System) play(ctx context.Context, all []*drilling) error {
	phase(all, "arrange")
	audit, err := s.Cluster.MarkAudit(ctx)
	if err != nil {
		return err
	}
	if err := s.arrange(ctx, all); err != nil {
		return fmt.Errorf("arrange: %w", err)
	}
	phase(all, "record")
	stop, err := recordThem(ctx, all)
	if err != nil {
		return fmt.Errorf("start recording: %w", err)
	}
	stepped := together(ctx, each(all, func(ctx context.Context, r *drilling) error { return r.steps(ctx) })...)
	// Also a drill that was interrupted leaves what it has seen.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return errors.Join(stepped, stop(ctx), recordUse(ctx, all, audit))
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
	r.phase("settle")
	return r.sleepUntil(ctx, r.rec.Clock().Now()+r.Scenario.Settle.D())
}

// arrange makes the cluster look as the scenarios want it, which agree about the
// handler and CoreDNS.
func (s *System) arrange(ctx context.Context, all []*drilling) error {
	// First the queue: a handler that is there would mark a node for a message that
	// becomes visible after the node is put back.
	if err := s.AWS.Purge(ctx); err != nil {
		return err
	}
	if err := s.Restore(ctx); err != nil {
		return err
	}
	if err := s.clearFaults(ctx); err != nil {
		return err
	}
	if err := s.Install(ctx, all[0].handler(), all[0].Scenario.Feature); err != nil {
		return err
	}
	if err := s.Cluster.SetDNS(ctx, all[0].Scenario.CoreDNS); err != nil {
		return err
	}
	if err := s.pickNodes(ctx, all); err != nil {
		return err
	}
	return together(ctx, each(all, func(ctx context.Context, r *drilling) error {
		if err := r.startWorkload(ctx); err != nil || r.Scenario.Probe == nil {
			return err
		}
		return r.startProbers(ctx)
	})...)
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
	for _, o := range r.beside {
		r.recordBeside(o, history.Event{Pod: o.namespace})
		for _, node := range o.targets() {
			r.recordBeside(o, history.Event{Node: node})
		}
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
		err = errors.Join(err, stopQueue())
		watcher.Stop()
		return nil, err
	}
	return func(ctx context.Context) error {
		depth := r.recordDepth(ctx)
		probed := stopProbers(ctx)
		queued := stopQueue()
		watched := watcher.Complete(ctx)
		watcher.Stop()
		return errors.Join(depth, probed, queued, watched)
	}, nil
}

func (r *drilling) recordDepth(ctx context.Context) error {
	visible, invisible, err := r.AWS.Depth(ctx)
	if err != nil {
		return err
	}
	r.rec.Record(history.Event{Kind: history.QueueDepth, Numbers: history.Numbers{history.Visible: float64(visible), history.Invisible: float64(invisible)}})
	return nil
}

// putBack undoes the drills, however they ended. CoreDNS keeps its settings for the
// next scenario; Restore and RestoreDNS at the end of the run put them back.
func (s *System) putBack(ctx context.Context, all []*drilling) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTimeout)
	defer cancel()
	// The queue goes before the nodes, as in arrange.
	errs := []error{s.clearFaults(ctx), s.AWS.Purge(ctx)}
	if s.unready || slices.ContainsFunc(all, func(r *drilling) bool { return r.Scenario.Disturbed() }) {
		errs = append(errs, s.Uninstall(ctx))
	}
	mended, err := s.restore(ctx)
	if err != nil {
		return errors.Join(append([]error{fmt.Errorf("restore: %w", err)}, errs...)...)
	}
	recordAll(all, history.Event{Kind: history.Restored, Note: strings.Join(mended, ", ")})
	return errors.Join(errs...)
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
