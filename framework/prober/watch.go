package prober

import (
	"cmp"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

const (
	// settleAfter is how long after its timeout a query is surely written, even by
	// a prober that got no CPU for a while.
	settleAfter = 5 * time.Second
	// lag is how late the echo or the control may answer before nothing is believed:
	// ten times what they take on a machine with little to do.
	lag = 25 * time.Millisecond
	// reach is two intervals of the echo.
	reach = 2 * time.Second / echoRate
	// hole is how long nothing may leave: half of the shortest outage that is
	// promised to be seen.
	hole = 10 * time.Millisecond
)

// Watch finds the windows of one stream while it is being probed, and the
// intervals in which nothing can be said of it. It holds the queries of the last
// seconds. It is not safe for concurrent use.
type Watch struct {
	target  string
	mode    history.Mode
	horizon time.Duration

	recent, controls []history.Query
	finder           history.Finder
	doubter          history.Doubter
}

// NewWatch follows one stream of the plan, which waits for answers as long as the
// plan says.
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

// Settle deals with what no later news can change. Call it every second or so with
// the present time of the queries' clock.
func (w *Watch) Settle(now time.Duration) { w.until(now - w.horizon) }

// Finish deals with all that is left.
func (w *Watch) Finish() {
	const ever = 1 << 62
	w.until(ever)
}

// until deals with the queries before end. A loss in doubt is nobody's.
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
