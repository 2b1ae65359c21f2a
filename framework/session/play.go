package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/run"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/scenarios"
)

// restoreTimeout bounds restoring the cluster, also after a Ctrl-C.
const restoreTimeout = 4 * time.Minute

// aftermath is what happens to the cluster when a drill's recording is over.
type aftermath int

// The aftermaths.
const (
	restoreOnly    aftermath = iota // it becomes what it was before the drill
	saveAndRestore                  // its state is saved first
	saveAndLeave                    // its state is saved, and it stays as it is
)

// phases are the parts of a play. They are functions, so that a test of their order needs no
// cluster: those of a run.Play, and what the session decides.
type phases struct {
	begin   func(history.Phase)
	arrange func(context.Context) error
	record  func(context.Context) (stop func(context.Context) error, err error)
	// steps performs the steps of each drill, and settles until its checks are decided.
	steps  func(context.Context) error
	alive  func(context.Context) error
	failed func(error) // records an error of the harness

	saveLogs  func(context.Context) error
	decide    func() aftermath
	saveState func(context.Context)

	clearQueue, uninstall, restore func(context.Context) error
	// close ends the histories.
	close func(complete bool) error
}

// play plays, restores and closes. A history is complete only if all of this worked.
func (p phases) play(ctx context.Context) error {
	played := p.untilStopped(ctx)
	if played != nil {
		played = errors.Join(played, p.alive(context.WithoutCancel(ctx)))
		if ctx.Err() != nil {
			played = fmt.Errorf("interrupted: %w", played)
		}
		p.failed(played)
	}
	p.begin(history.Restore)
	restored := p.saveLogs(ctx)
	after := p.decide()
	if after != restoreOnly {
		p.saveState(ctx)
	}
	if after != saveAndLeave {
		restored = errors.Join(restored, p.restored(ctx))
	}
	if restored != nil {
		p.failed(restored)
	}
	closed := p.close(played == nil && restored == nil && after != saveAndLeave)
	return errors.Join(played, restored, closed)
}

func (p phases) untilStopped(ctx context.Context) error {
	p.begin(history.Arrange)
	if err := p.arrange(ctx); err != nil {
		return fmt.Errorf("arrange: %w", err)
	}
	p.begin(history.Record)
	stop, err := p.record(ctx)
	if err != nil {
		return fmt.Errorf("start recording: %w", err)
	}
	stepped := p.steps(ctx)
	// A drill that was interrupted also keeps what it has seen.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), run.StopTimeout)
	defer cancel()
	return errors.Join(stepped, stop(ctx))
}

// restored goes on after an error: what can be restored is.
func (p phases) restored(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTimeout)
	defer cancel()
	// First the queue: the handler would mark a node again for a message that becomes
	// visible after the node is restored.
	cleared := p.clearQueue(ctx)
	uninstalled := p.uninstall(ctx)
	return errors.Join(p.restore(ctx), cleared, uninstalled)
}

// decision is what follows a recording: the aftermath, and the settings of CoreDNS that the next
// drill needs; nil if none is known to follow.
type decision func() (aftermath, *coredns.Settings)

// playDrills plays drills at the same time on a system and records their histories. Afterwards the cluster is
// as it was before, also when ctx ends early, unless what is decided states otherwise. An error
// means that the harness could not do its part; the histories record it too.
func (s *Session) playDrills(ctx context.Context, on *system.System, decide decision, drills ...run.Drill) error {
	p, err := run.Begin(on, drills...)
	if err != nil {
		return err
	}
	for _, d := range p.Drills {
		s.console.Losing(d.Scenario.Name, d.Latest)
	}
	var next *coredns.Settings
	err = phases{
		begin:   p.Phase,
		arrange: p.Arrange,
		record:  p.Record,
		steps: func(ctx context.Context) error {
			group, ctx := errgroup.WithContext(ctx)
			for _, d := range p.Drills {
				group.Go(func() error { return stepAndSettle(ctx, d) })
			}
			return group.Wait()
		},
		alive:     s.system.Alive,
		failed:    p.Failed,
		saveLogs:  p.SaveLogs,
		decide:    func() (after aftermath) { after, next = decide(); return after },
		saveState: p.SaveState,

		clearQueue: p.ClearQueue,
		uninstall:  p.Uninstall,
		restore:    func(ctx context.Context) error { return p.Restore(ctx, next) },
		close:      p.Close,
	}.play(ctx)
	return wrap.Errorf(err, "scenario %s", p)
}

func stepAndSettle(ctx context.Context, d *run.Runner) error {
	if err := d.Steps(ctx); err != nil {
		return err
	}
	if err := d.Settle(ctx); err != nil {
		return err
	}
	return untilDecided(ctx, d.Scenario, d.Recorder, endsWithin+d.Scenario.CoreDNS.GracePeriod.D(), d.Sleep)
}

// endsWithin is how long a drill is recorded after its steps, and the grace period of CoreDNS, so that what is under
// way ends: a pod that is replaced starts and becomes Ready. What has not ended by then is unknown, by name.
const endsWithin = 30 * time.Second

// decidedPoll is the pause between two looks at the checks.
const decidedPoll = time.Second

// untilDecided continues the recording until every check can be decided: a check that
// stays unknown because the recording ended could never fail. What a check requires to
// happen ends its wait; what it forbids can happen until its time is over. A pod of CoreDNS or of the
// measured application that terminates, perhaps in lameduck, or is not Ready can still lose queries: with a probe, that is
// waited for, within a time. Checks that need
// queries are judged when the recording is over, so that nothing is read from disk here: the
// prober runs on the same machine.
func untilDecided(ctx context.Context, scenario scenarios.Scenario, rec *history.Recorder, within time.Duration, sleep func(context.Context, time.Duration) error) error {
	limit := rec.Clock().Now() + within
	for {
		soFar, now := rec.SoFar(), rec.Clock().Now()
		until, open := scenario.Undecided(scenario.Times(soFar.Events), now)
		if until <= now {
			over := scenario.Probe == nil || now >= limit
			if !over {
				underWay, _ := story.StillUnderWay(story.Read(scenario, soFar))
				over = len(underWay) == 0
			}
			if over && (len(open) == 0 || verdict.Decided(scenario, soFar, open)) {
				return nil
			}
			until = now + decidedPoll
		}
		if err := sleep(ctx, until); err != nil {
			return err
		}
	}
}
