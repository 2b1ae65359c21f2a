package prober

import (
	"fmt"
	"time"
)

// Tolerance is how far behind its intended time a query may leave. Later than
// that it is not sent but recorded as unsent: a burst of overdue queries is not
// the load that was asked for.
const Tolerance = 250 * time.Millisecond

// tick is the grid on which queries leave that are due more often.
const tick = time.Millisecond

// errLate is why most unsent queries were not sent.
var errLate = fmt.Errorf("more than %v behind their time: this machine was too busy", Tolerance)

// schedule says when the queries of a stream are due, in time since its start. It
// is a function of that time alone, so that no delay adds up and no slow answer
// thins the load.
type schedule struct {
	rate int // queries/s
}

// due is how many queries must have left after elapsed: the first at 0, then
// one every 1/rate.
func (s schedule) due(elapsed time.Duration) int {
	if elapsed < 0 {
		return 0
	}
	return int(int64(elapsed)*int64(s.rate)/int64(time.Second)) + 1
}

// intended is when query i (from 0) is due: the earliest elapsed time at which
// due(elapsed) > i.
func (s schedule) intended(i int) time.Duration {
	return time.Duration((int64(i)*int64(time.Second) + int64(s.rate) - 1) / int64(s.rate))
}

// wake is when to get up for query i: when it is due, or on the next tick where
// queries are due more often than that. On a grid several streams share one
// wake-up, and none moves what comes after it.
func (s schedule) wake(i int) time.Duration {
	at := s.intended(i)
	if s.intended(1) >= tick {
		return at
	}
	return nextTick(at)
}

// nextTick is the first tick not before elapsed.
func nextTick(elapsed time.Duration) time.Duration { return (elapsed + tick - 1).Truncate(tick) }
