package prober

import (
	"cmp"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// settleAfter is how long after its timeout a query is surely written, even by
// a prober that got no CPU for a while.
const settleAfter = 5 * time.Second

// WindowLog finds the windows of one stream while it is being probed. It holds
// the queries of the last seconds and of a window that lasts, not those of half
// an hour. It is not safe for concurrent use.
type WindowLog struct {
	target  string
	mode    history.Mode
	horizon time.Duration

	past    []history.Window
	settled []history.Query // in order, all their neighbours known
	recent  []history.Query
}

// NewWindowLog follows one stream of the plan, which waits for answers as long
// as the plan says.
func NewWindowLog(plan Plan, s Stream) *WindowLog {
	return &WindowLog{target: s.Target, mode: s.Mode, horizon: plan.timeout() + settleAfter}
}

// Add takes a query of the stream.
func (l *WindowLog) Add(q history.Query) { l.recent = append(l.recent, q) }

// Settle forgets what no window can need any more. Call it every second or so
// with the present time of the queries' clock.
func (l *WindowLog) Settle(now time.Duration) {
	stream := history.Stream(l.recent, l.target, l.mode)
	old, _ := slices.BinarySearchFunc(stream, now-l.horizon, func(q history.Query, at time.Duration) int {
		return cmp.Compare(q.Intended, at)
	})
	l.settled = append(l.settled, stream[:old]...)
	l.recent = stream[old:]
	if n := len(l.settled); n > 0 && l.quietBefore(l.settled[n-1].Intended) {
		l.past = append(l.past, history.Windows(l.settled, history.Quiet)...)
		l.settled = nil
	}
}

// quietBefore is true where a later loss cannot belong to a settled window.
func (l *WindowLog) quietBefore(end time.Duration) bool {
	for _, q := range slices.Backward(l.settled) {
		if q.Outcome.Lost() {
			return false
		}
		if end-q.Intended > history.Quiet {
			return true
		}
	}
	return false
}

// Windows are those known by now.
func (l *WindowLog) Windows() []history.Window {
	stream := slices.Concat(l.settled, history.Stream(l.recent, l.target, l.mode))
	return append(append([]history.Window{}, l.past...), history.Windows(stream, history.Quiet)...)
}
