package recording

import (
	"context"
	"errors"
	"time"
)

// Sources are what a history is recorded from, of our own cluster and of any other, in the order in which they start.
type Sources struct {
	// Watch watches the Kubernetes API. Its events may lag behind those of the streams, so it ends last.
	Watch func(context.Context) (Watching, error)
	// Facts, if set, records what is known before anything begins.
	Facts func(context.Context) error
	// Streams are records that are read until they are stopped.
	Streams []Start
	// Last, if set, records what is known only at the end, while the streams are still read.
	Last func(context.Context) error
}

// Watching is a watch in progress.
type Watching struct {
	Complete func(context.Context) error // waits until it has seen all there is
	Stop     func()
}

type (
	// Start starts a source, and returns what ends it.
	Start = func(context.Context) (Stop, error)
	// Stop ends a source, and returns once its record is whole.
	Stop = func(context.Context) error
)

// Start starts the sources, or none of them. Stop ends them in an order that loses nothing.
func (s Sources) Start(ctx context.Context) (stop Stop, err error) {
	watch, err := s.Watch(ctx)
	if err != nil {
		return nil, err
	}
	if s.Facts != nil {
		if err := s.Facts(ctx); err != nil {
			watch.Stop()
			return nil, err
		}
	}
	stops, err := StartAll(ctx, s.Streams)
	if err != nil {
		watch.Stop()
		return nil, err
	}
	return func(ctx context.Context) error {
		var last error
		if s.Last != nil {
			last = s.Last(ctx)
		}
		stopped := StopAll(ctx, stops)
		complete := watch.Complete(ctx)
		watch.Stop()
		return errors.Join(last, stopped, complete)
	}, nil
}

// StopTimeout bounds the end of a recording: a prober waits for answers that are still outstanding.
const StopTimeout = 30 * time.Second

// StartAll starts one after the other. If one fails, those that have started are
// stopped, also if ctx has ended.
func StartAll(ctx context.Context, starts []Start) (stops []Stop, err error) {
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
func stopAllInTime(ctx context.Context, stops []Stop) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopTimeout)
	defer cancel()
	return StopAll(ctx, stops)
}

// StopAll stops all, the last started first, also if one of them fails.
func StopAll(ctx context.Context, stops []Stop) error {
	var errs []error
	for i := len(stops) - 1; i >= 0; i-- {
		errs = append(errs, stops[i](ctx))
	}
	return errors.Join(errs...)
}
