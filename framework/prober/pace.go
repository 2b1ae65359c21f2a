package prober

import (
	"context"
	"time"
)

// Tolerance is how far behind its intended time a query may leave. Later than
// that it is not sent but recorded as unsent: a burst of overdue queries is not
// the load that was asked for.
const Tolerance = 250 * time.Millisecond

// tick is the shortest sleep between batches where queries are due more often.
const tick = time.Millisecond

// due is how many queries must have left after elapsed: the first at 0, then
// one every 1/rate. It depends on nothing else, so that no delay adds up.
func due(elapsed time.Duration, rate int) int {
	if elapsed < 0 {
		return 0
	}
	return int(int64(elapsed)*int64(rate)/int64(time.Second)) + 1
}

// intended is when query i (from 0) is due: the earliest elapsed time at which
// due(elapsed, rate) > i.
func intended(i, rate int) time.Duration {
	return time.Duration((int64(i)*int64(time.Second) + int64(rate) - 1) / int64(rate))
}

// pacer calls send for every query of a schedule when it is due, and skip for
// one whose time has passed by more than Tolerance.
type pacer struct {
	rate  int
	total time.Duration
	now   func() time.Duration // since the start of the schedule
	send  func(i int, at time.Duration)
	skip  func(i int, at time.Duration)
}

// run returns when the schedule is done. When ctx ends it first deals with the
// queries that were due by then: being stopped does not excuse being late.
func (p pacer) run(ctx context.Context) {
	count := due(p.total-1, p.rate) // queries intended before total
	timer := time.NewTimer(0)
	defer timer.Stop()
	for next := 0; ; {
		stopped := ctx.Err() != nil
		for ready := min(due(p.now(), p.rate), count); next < ready; next++ {
			at := intended(next, p.rate)
			if p.now()-at > Tolerance {
				p.skip(next, at)
			} else {
				p.send(next, at)
			}
		}
		if stopped || next == count {
			return
		}
		wait := intended(next, p.rate) - p.now()
		if intended(1, p.rate) < tick {
			wait = max(wait, tick)
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}
