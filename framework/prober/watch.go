package prober

import (
	"cmp"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

const (
	// settleAfter is how long after its timeout a query is certain to be written, even if
	// the prober got no CPU for a while.
	settleAfter = 5 * time.Second
	// lag is the latency of the echo or the control above which nothing is trusted: ten
	// times their latency on a machine without load.
	lag = 25 * time.Millisecond
	// reach is two intervals of the echo.
	reach = 2 * time.Second / echoRate
	// hole is how long no query may leave: half of the shortest outage that must be
	// detected.
	hole = 10 * time.Millisecond
)

// Watch finds the outage windows of one stream during the probe, and the intervals of
// doubt in which it cannot be judged. It keeps the queries of the last seconds. It is
// not safe for concurrent use.
type Watch struct {
	target  string
	mode    history.Mode
	horizon time.Duration

	recent, controls []history.Query
	finder           history.Finder
	doubter          history.Doubter
}

// NewWatch returns a watch of one stream of the plan.
func NewWatch(plan Plan, s QueryStream) *Watch {
	return &Watch{
		target: s.Target, mode: s.Mode, horizon: plan.timeout() + settleAfter,
		finder:  history.Finder{Quiet: history.Quiet},
		doubter: history.Doubter{Lag: lag, Reach: reach, Hole: max(hole, 4*time.Second/time.Duration(s.Rate))},
	}
}

// Add takes a query: of the stream, of the echo or of the control. Others are
// ignored.
func (w *Watch) Add(q history.Query) {
	switch {
	case q.Target == history.Echo, q.Target == history.Control:
		w.controls = append(w.controls, q)
	case q.Target == w.target && q.Mode == w.mode:
		w.recent = append(w.recent, q)
	}
}

// Settle evaluates the queries that no later query can affect. Call it about every
// second with the current time of the queries' clock.
func (w *Watch) Settle(now time.Duration) { w.until(now - w.horizon) }

// Finish evaluates the remaining queries.
func (w *Watch) Finish() {
	const ever = 1 << 62
	w.until(ever)
}

// until evaluates the queries before end. A loss in an interval of doubt is ignored.
func (w *Watch) until(end time.Duration) {
	for _, q := range take(&w.controls, end) {
		w.doubter.Control(q)
	}
	for _, q := range take(&w.recent, end-reach) {
		w.doubter.Sent(q)
		if !q.Outcome.Lost() || !w.doubter.Doubtful(q.Left()) {
			w.finder.Add(q)
		}
	}
}

// take removes the queries before end and returns them in order.
func take(queries *[]history.Query, end time.Duration) []history.Query {
	all := *queries
	slices.SortFunc(all, func(a, b history.Query) int { return cmp.Compare(a.Intended, b.Intended) })
	n, _ := slices.BinarySearchFunc(all, end, func(q history.Query, at time.Duration) int { return cmp.Compare(q.Intended, at) })
	taken := slices.Clone(all[:n])
	*queries = slices.Delete(all, 0, n)
	return taken
}

// Windows are those found so far.
func (w *Watch) Windows() []history.Window { return w.finder.Windows() }

// Doubts are those found so far.
func (w *Watch) Doubts() []history.Doubt { return w.doubter.Doubts() }
