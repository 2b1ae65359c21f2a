package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spotdrill/spotdrill/framework/history"
)

const (
	// stopTimeout bounds the end of the recording: the prober waits for answers that
	// are still outstanding.
	stopTimeout = 30 * time.Second
	// restoreTimeout bounds putting everything back, also after a Ctrl-C.
	restoreTimeout = 4 * time.Minute
)

// course is the order of a play: what follows what, and what happens also if a part
// fails or the context ends. The parts are functions, so that a test of the order needs
// no cluster.
type course struct {
	phase    func(history.Phase)
	arrange  func(context.Context) error
	record   startFunc
	steps    func(context.Context) error
	requests func(context.Context) error // records what the handler requested of the API server
	alive    func(context.Context) error
	failed   func(error) // records an error of the harness
	// aftermath reports whether the cluster is to be left as it is.
	aftermath func(context.Context) (leave bool, err error)
	// clearQueue, uninstall and restore put the cluster back.
	clearQueue, uninstall, restore func(context.Context) error
	// close ends the histories.
	close func(complete bool) error
}

// run plays, puts back and closes. A history is complete only if all of this worked.
func (c course) run(ctx context.Context) error {
	played := c.play(ctx)
	if played != nil {
		played = errors.Join(played, c.alive(context.WithoutCancel(ctx)))
		c.failed(played)
	}
	c.phase(history.Restore)
	leave, restored := c.aftermath(ctx)
	if !leave {
		restored = errors.Join(restored, c.putBack(ctx))
	}
	if restored != nil {
		c.failed(restored)
	}
	closed := c.close(played == nil && restored == nil && !leave)
	return errors.Join(played, restored, closed)
}

func (c course) play(ctx context.Context) error {
	c.phase(history.Arrange)
	if err := c.arrange(ctx); err != nil {
		return fmt.Errorf("arrange: %w", err)
	}
	c.phase(history.Record)
	stop, err := c.record(ctx)
	if err != nil {
		return fmt.Errorf("start recording: %w", err)
	}
	stepped := c.steps(ctx)
	// A drill that was interrupted also keeps what it has seen.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	stopped := stop(ctx)
	return errors.Join(stepped, stopped, c.requests(ctx))
}

// putBack goes on after an error: what can be put back is.
func (c course) putBack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTimeout)
	defer cancel()
	// First the queue: the handler would mark a node again for a message that becomes
	// visible after the node is restored.
	cleared := c.clearQueue(ctx)
	uninstalled := c.uninstall(ctx)
	return errors.Join(c.restore(ctx), cleared, uninstalled)
}

// sources are what a drill is recorded from, in the order in which they start.
type sources struct {
	watch   func(context.Context) (watch, error) // of the Kubernetes API
	facts   func(context.Context) error          // records what is known before the first step
	waits   startFunc                            // of the time without a processor
	queue   startFunc
	probers startFunc
	last    func(context.Context) error // records what is known only at the end
}

// watch is a watch in progress.
type watch struct {
	complete func(context.Context) error // waits until it has seen all there is
	stop     func()
}

// start starts the sources, or none of them. Stop ends them in an order that loses
// nothing.
func (s sources) start(ctx context.Context) (stop stopFunc, err error) {
	watch, err := s.watch(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.facts(ctx); err != nil {
		watch.stop()
		return nil, err
	}
	stops, err := startAll(ctx, []startFunc{s.waits, s.queue, s.probers})
	if err != nil {
		watch.stop()
		return nil, err
	}
	return func(ctx context.Context) error {
		// While the probers still run: it belongs to the drill.
		last := s.last(ctx)
		stopped := stopAll(ctx, stops)
		// The API's events may lag behind the queue's: the watch ends last.
		complete := watch.complete(ctx)
		watch.stop()
		return errors.Join(last, stopped, complete)
	}, nil
}

type (
	startFunc = func(context.Context) (stopFunc, error)
	stopFunc  = func(context.Context) error
)

// startAll starts one after the other. If one fails, those that have started are
// stopped.
func startAll(ctx context.Context, starts []startFunc) (stops []stopFunc, err error) {
	for _, start := range starts {
		stop, err := start(ctx)
		if err != nil {
			return nil, errors.Join(err, stopAllInTime(ctx, stops))
		}
		stops = append(stops, stop)
	}
	return stops, nil
}

// stopAllInTime stops all within stopTimeout, also if ctx has ended.
func stopAllInTime(ctx context.Context, stops []stopFunc) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return stopAll(ctx, stops)
}

// stopAll stops all, the last started first, also if one of them fails.
func stopAll(ctx context.Context, stops []stopFunc) error {
	var errs []error
	for i := len(stops) - 1; i >= 0; i-- {
		errs = append(errs, stops[i](ctx))
	}
	return errors.Join(errs...)
}

// inParallel does the same to all items at once. The first error cancels the others.
func inParallel[T any](ctx context.Context, items []T, do func(context.Context, T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, item := range items {
		group.Go(func() error { return do(ctx, item) })
	}
	return group.Wait()
}
