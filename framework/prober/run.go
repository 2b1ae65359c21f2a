package prober

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// sender sends the queries of one stream and settles each with its account.
type sender interface {
	// send sends query i, intended at the given time of the clock. It never
	// waits for an answer and is called by one goroutine.
	send(i int, at time.Duration)
	// finish returns when every query that was sent is settled.
	finish()
}

// Run probes as planned until plan.For has passed or ctx ends, waits for the
// outstanding answers, for plan.Timeout at most, and returns the summary. All
// times are durations since the clock's base.
//
// sink gets every query once its fate is known, not in order of their times, in
// one goroutine that Run waits for. A slow sink costs memory but delays no query.
//
// The end of ctx is no error. It fails where the plan is invalid or this
// machine cannot carry it: too few open files, no socket to be had.
func Run(ctx context.Context, plan Plan, clock *history.Clock, sink func(history.Query)) (Summary, error) {
	if err := plan.Validate(); err != nil {
		return Summary{}, fmt.Errorf("probe plan: %w", err)
	}
	if err := checkOpenFiles(plan); err != nil {
		return Summary{}, err
	}
	ledger := newLedger(plan, sink)
	senders := make([]sender, len(plan.Streams))
	for i, s := range plan.Streams {
		var err error
		if senders[i], err = newSender(s, plan.timeout(), clock, ledger.accounts[i]); err != nil {
			for _, opened := range senders[:i] {
				opened.finish()
			}
			return Summary{}, fmt.Errorf("probe %s/%s: %w", s.Target, s.Mode, err)
		}
	}

	settled, written := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(written)
		ledger.write(settled)
	}()
	base := clock.Now()
	var streams sync.WaitGroup
	for i, s := range plan.Streams {
		streams.Go(func() {
			pacer{
				rate:  s.Rate,
				total: plan.For,
				now:   func() time.Duration { return clock.Now() - base },
				send:  func(n int, at time.Duration) { senders[i].send(n, base+at) },
				skip: func(_ int, at time.Duration) {
					q := history.Query{Target: s.Target, Mode: s.Mode, Intended: base + at}
					ledger.accounts[i].failed(q, clock.Now(), errLate)
				},
			}.run(ctx)
			senders[i].finish()
		})
	}
	streams.Wait()
	close(settled)
	<-written
	return ledger.summary(), nil
}

func newSender(s Stream, timeout time.Duration, clock *history.Clock, a *account) (sender, error) {
	q, err := newQuestion(s.Name, s.Type)
	if err != nil {
		return nil, err
	}
	if s.Mode == history.Fresh {
		return newFreshPorts(s, q, timeout, clock, a), nil
	}
	return newFixedPorts(s, q, timeout, clock, a)
}
