package run

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// StopTimeout bounds the end of the recording, also after a Ctrl-C: the prober waits for answers
// that are still outstanding.
const StopTimeout = 30 * time.Second

// sources are what a drill is recorded from, in the order in which they start.
type sources struct {
	watch   func(context.Context) (watch, error) // of the Kubernetes API
	facts   func(context.Context) error          // records what is known before the first step
	waits   startFunc                            // of the time without a processor
	queue   startFunc
	probers startFunc
	last    func(context.Context) error // records what is known only at the end
	beside  func() error                // ends what goes on beside the steps
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
		beside := s.beside()
		// While the probers still run: it belongs to the drill.
		last := s.last(ctx)
		stopped := stopAll(ctx, stops)
		// The API's events may lag behind the queue's: the watch ends last.
		complete := watch.complete(ctx)
		watch.stop()
		return errors.Join(beside, last, stopped, complete)
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

// stopAllInTime stops all within StopTimeout, also if ctx has ended.
func stopAllInTime(ctx context.Context, stops []stopFunc) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopTimeout)
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
