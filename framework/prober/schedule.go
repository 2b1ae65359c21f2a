package prober

import (
	"fmt"
	"time"
)

// Tolerance is how late a query may leave. After that it is not sent but recorded as
// unsent: a burst of overdue queries is not the planned load.
const Tolerance = 250 * time.Millisecond

// tick is the interval at which queries leave that are due more often.
const tick = time.Millisecond

// errLate is why most unsent queries were not sent.
var errLate = fmt.Errorf("more than %v late: this machine had too much load", Tolerance)

// schedule shows when the queries of a stream are due, in time since its start. It
// depends on that time alone, so that delays do not add up and slow answers do not
// reduce the load.
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

// wake is when to wake up for query i: when it is due, or on the next tick if queries
// are due more often. With ticks several streams share one wake-up, and no wake-up
// shifts the next one.
func (s schedule) wake(i int) time.Duration {
	at := s.intended(i)
	if s.intended(1) >= tick {
		return at
	}
	return nextTick(at)
}

// nextTick is the first tick not before elapsed.
func nextTick(elapsed time.Duration) time.Duration { return (elapsed + tick - 1).Truncate(tick) }
