package prober

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Run probes as planned until plan.For has passed or ctx ends, waits for the
// outstanding answers, for plan.Timeout at most, and returns the summary. All
// times are durations since the clock's base.
//
// Beside the plan's streams it asks a responder of its own, as history.Echo: what
// that loses or delays is not the server's doing.
//
// sink gets every query once its fate is known, not in order of their times, in
// one goroutine that Run waits for. A slow sink costs memory but delays no query,
// up to maxUnwritten of them.
//
// The end of ctx is no error. It fails where the plan is invalid or this
// machine cannot carry it: too few open files, no socket to be had, or a sink that
// falls behind by more than maxUnwritten queries. The sink then does not get all.
func Run(ctx context.Context, plan Plan, clock *history.Clock, sink func(history.Query)) (Summary, error) {
	if err := plan.Validate(); err != nil {
		return Summary{}, fmt.Errorf("probe plan: %w", err)
	}
	if err := checkOpenFiles(plan); err != nil {
		return Summary{}, err
	}
	l, err := newLoop(clock, openFiles(plan))
	if err != nil {
		return Summary{}, err
	}
	defer l.close()
	echo, stopEcho, err := startEcho(ctx)
	if err != nil {
		return Summary{}, err
	}
	defer stopEcho()
	streams := slices.Concat(plan.Streams, []QueryStream{echo})
	ledger := newLedger(streams, sink)
	var courses []*course
	defer func() {
		for _, c := range courses {
			c.close()
		}
	}()
	for i, s := range streams {
		sender, err := newSender(l, s, plan.timeout(), ledger.accounts[i])
		if err != nil {
			return Summary{}, fmt.Errorf("probe %s/%s: %w", s.Target, s.Mode, err)
		}
		courses = append(courses, newCourse(s, plan.For, sender, ledger.accounts[i]))
	}
	settled, written := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(written)
		ledger.write(settled)
	}()
	l.base = clock.Now() + time.Millisecond
	err = l.run(ctx, courses)
	close(settled)
	<-written
	if err != nil {
		return Summary{}, fmt.Errorf("probe: %w", err)
	}
	return ledger.summary(), nil
}

func newSender(l *loop, s QueryStream, timeout time.Duration, a *account) (sender, error) {
	asked, err := newQuestions(s)
	if err != nil {
		return nil, err
	}
	switch s.Mode {
	case history.Fresh:
		return newFreshPorts(l, s, asked, timeout, a), nil
	case history.Fixed:
		return newFixedPorts(l, s, asked, timeout, a)
	default:
		return newConnections(l, s, asked, timeout, a), nil
	}
}
