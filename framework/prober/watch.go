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
	reach = 2 * time.Second / DefaultEcho
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

	recent   []watched
	controls []history.Query
	finder   history.Finder
	doubter  history.Doubter
}

// watched is what a watch must know of a query, in a quarter of the space: at 20,000/s
// the last seconds have more than 100,000 queries.
type watched struct {
	intended, sent time.Duration
	outcome        uint8 // in history.Outcomes
	atOnce         bool  // its end and its departure have the same time
}

var outcomes = history.Outcomes()

func newWatched(q history.Query) watched {
	return watched{intended: q.Intended, sent: q.Sent, outcome: uint8(slices.Index(outcomes, q.Outcome)), atOnce: q.Done == q.Sent}
}

func (w watched) query() history.Query {
	q := history.Query{Intended: w.intended, Sent: w.sent, Done: w.sent + 1, Outcome: outcomes[w.outcome]}
	if w.atOnce {
		q.Done = q.Sent
	}
	return q
}

// NewWatch returns a watch of one stream of the plan.
func NewWatch(plan Plan, s QueryStream) *Watch {
	horizon := plan.timeout() + settleAfter
	holds := schedule{s.Rate}.due(min(plan.For, horizon+time.Second))
	return &Watch{
		target: s.Target, mode: s.Mode, horizon: horizon, recent: make([]watched, 0, holds),
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
		w.recent = append(w.recent, newWatched(q))
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
	take(&w.controls, end, func(q history.Query) time.Duration { return q.Intended }, w.doubter.Control)
	take(&w.recent, end-reach, func(q watched) time.Duration { return q.intended }, func(one watched) {
		q := one.query()
		w.doubter.Sent(q)
		if !q.Outcome.Lost() || !w.doubter.Doubtful(q.Left()) {
			w.finder.Add(q)
		}
	})
}

// take removes the queries before end and passes them on in order.
func take[Q any](queries *[]Q, end time.Duration, intended func(Q) time.Duration, pass func(Q)) {
	all := *queries
	slices.SortFunc(all, func(a, b Q) int { return cmp.Compare(intended(a), intended(b)) })
	n, _ := slices.BinarySearchFunc(all, end, func(q Q, at time.Duration) int { return cmp.Compare(intended(q), at) })
	for _, q := range all[:n] {
		pass(q)
	}
	*queries = slices.Delete(all, 0, n)
}

// Windows are those found so far.
func (w *Watch) Windows() []history.Window { return w.finder.Windows() }

// Doubts are those found so far.
func (w *Watch) Doubts() []history.Doubt { return w.doubter.Doubts() }
