package prober

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Run probes as planned until plan.For has passed or ctx ends. Then it waits for pending
// answers, at most for plan.Timeout or echoTimeout, and returns the summary. All times are durations
// since the clock's base.
//
// In addition to the plan's streams it queries its own responder, as history.Echo. If
// these queries are lost or late, the server is not the cause.
//
// Run calls sink in one goroutine with every query as soon as its outcome is known, not
// in order of time. A slow sink delays no query, but up to maxUnwritten of them are kept
// in memory.
//
// The end of ctx is no error. Run fails if the plan is invalid or too much for this
// machine: too few open files, no socket, or a sink that lags by more than maxUnwritten
// queries. The sink then misses some.
func Run(ctx context.Context, plan Plan, clock *history.Clock, sink func(history.Query)) (Summary, error) {
	if err := plan.Validate(); err != nil {
		return Summary{}, fmt.Errorf("probe plan: %w", err)
	}
	if err := checkOpenFiles(plan); err != nil {
		return Summary{}, err
	}
	rings, files := plan.rings(allowFiles(openFiles(plan)+freshCount)), openFiles(plan)
	for _, r := range rings {
		files += uint64(r.kept)
	}
	l, err := newLoop(clock, files)
	if err != nil {
		return Summary{}, err
	}
	defer l.close()
	echo, stopEcho, err := startEcho(ctx, plan.echo())
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
	rings = append(rings, ring{}) // the echo has none
	for i, s := range streams {
		timeout := plan.timeout()
		if s.Target == history.Echo {
			timeout = echoTimeout
		}
		sender, err := newSender(&task{l, s, timeout, ledger.accounts[i]}, rings[i])
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
	summary := ledger.summary()
	for i := range summary.Streams {
		summary.Streams[i].KeptSockets = rings[i].kept
	}
	return summary, nil
}

func newSender(t *task, r ring) (sender, error) {
	if t.stream.Mode.OfApplications() {
		return newRequests(t), nil
	}
	asked, err := newQuestions(t.stream)
	if err != nil {
		return nil, err
	}
	switch t.stream.Mode {
	case history.Fresh:
		return newFreshPorts(t, asked, r), nil
	case history.Fixed:
		return newFixedPorts(t, asked)
	default:
		return newConnections(t, asked), nil
	}
}
