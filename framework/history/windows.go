package history

import (
	"cmp"
	"slices"
	"time"
)

// Window is an interval in which queries of one stream were lost: from when the
// first lost query left to when the first answered one after the last lost one
// did. Behind a service with one dead backend of two, lost and answered queries
// alternate, so losses less than quiet apart belong to one window; Lost of Asked
// says how dense it was.
type Window struct {
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
	// FromMargin and ToMargin say how much earlier each edge may lie: the last
	// answered query that surely left before From did so by FromMargin, the last lost
	// one before To by ToMargin. Commonly that is a query interval; it is more if
	// the prober stalled. FromMargin is 0 if nothing was answered before.
	FromMargin time.Duration `json:"from_margin"`
	ToMargin   time.Duration `json:"to_margin"`
	Lost       int           `json:"lost"`
	Asked      int           `json:"asked"` // queries within the window, the closing answer included
	// Open reports whether no answered query came after the last lost one: the
	// window is at least this long.
	Open bool `json:"open,omitempty"`
}

// Length is the window's duration.
func (w Window) Length() time.Duration { return w.To - w.From }

// Quiet is the default gap that ends a window. It is far above a query interval
// at 500/s and far below the seconds that separate the phases of an outage
// (endpoint gone, pod exit, reconciliation of conntrack entries).
const Quiet = 500 * time.Millisecond

// QueriesTo selects the queries of one target in these modes, in order of their intended
// time, without those that were never sent.
func QueriesTo(queries []Query, target string, modes ...Mode) []Query {
	var out []Query
	for _, q := range queries {
		if q.Target == target && slices.Contains(modes, q.Mode) && q.Outcome != Unsent {
			out = append(out, q)
		}
	}
	slices.SortStableFunc(out, func(a, b Query) int { return cmp.Compare(a.Intended, b.Intended) })
	return out
}

// Windows finds the windows of a stream, in order of intended times.
func Windows(stream []Query, quiet time.Duration) []Window {
	f := Finder{Quiet: quiet}
	for _, q := range stream {
		f.Add(q)
	}
	return f.Windows()
}

// Finder finds windows while the queries of a stream come in. It keeps no queries.
type Finder struct {
	Quiet time.Duration // the gap that ends a window

	past     []Window
	now      Window // the one that may go on; Lost is 0 if there is none
	asked    int    // queries since now began; its own are those up to its end
	lost     last
	answered last
}

// last is when the last queries of a fate left. Of those that left at one moment, in
// one stalled batch, it is unknown which was first.
type last struct {
	at, before time.Duration // the last moment, and the one before it
	n          int           // how many moments are known, up to 2
}

func (l *last) add(at time.Duration) {
	if l.n > 0 && at == l.at {
		return
	}
	l.before, l.at, l.n = l.at, at, min(l.n+1, 2)
}

// since is how long before a moment the last one was that is surely earlier, 0 if
// there is none.
func (l *last) since(at time.Duration) time.Duration {
	switch {
	case l.n > 0 && l.at != at:
		return at - l.at
	case l.n > 1:
		return at - l.before
	}
	return 0
}

// Add takes the next query in order of intended times. Those that were never sent
// say nothing.
func (f *Finder) Add(q Query) {
	if q.Outcome == Unsent {
		return
	}
	left := q.Left()
	f.asked++
	if !q.Outcome.Lost() {
		f.answered.add(left)
		if f.now.Lost > 0 && f.now.Open {
			to := max(left, f.lost.at) // in a stalled batch the answer may come before the lost one's stamp
			f.now.To, f.now.ToMargin, f.now.Asked, f.now.Open = to, f.lost.since(to), f.asked, false
		}
		return
	}
	// Without an answer in between the window cannot have ended.
	if f.now.Lost > 0 && !f.now.Open && left-f.lost.at > f.Quiet {
		f.past = append(f.past, f.now)
		f.now = Window{}
	}
	if f.now.Lost == 0 {
		f.now.From, f.now.FromMargin, f.asked = left, f.answered.since(left), 1
	}
	f.now.To, f.now.ToMargin, f.now.Open = left, 0, true
	f.now.Lost, f.now.Asked = f.now.Lost+1, f.asked
	f.lost.add(left)
}

// Windows are those found so far, the last of which may go on.
func (f *Finder) Windows() []Window {
	if f.now.Lost == 0 {
		return f.past
	}
	return append(f.past[:len(f.past):len(f.past)], f.now)
}
