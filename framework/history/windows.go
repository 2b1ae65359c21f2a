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
// describes how dense it was.
type Window struct {
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
	// FromMargin and ToMargin describe how much earlier each edge may lie: FromMargin before
	// From, the last answered query had not left; ToMargin before To, the last lost one
	// had not. Commonly that is a query interval; it is more if the prober stalled.
	// FromMargin is 0 if nothing was answered before.
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

// QueriesWithin selects the queries of one target in these modes that were intended from a time on
// and before another, in order of their intended time, without those that were never sent. They are
// not copied if they are in queries so, and must not be changed.
func QueriesWithin(queries []Query, from, to time.Duration, target string, modes ...Mode) []Query {
	chosen := func(q *Query) bool {
		return q.Target == target && q.Intended >= from && q.Intended < to && q.Outcome != Unsent && slices.Contains(modes, q.Mode)
	}
	first, last, n, ordered := 0, 0, 0, true
	for i := range queries {
		if q := &queries[i]; chosen(q) {
			if n == 0 {
				first = i
			} else if q.Intended < queries[last].Intended {
				ordered = false
			}
			last = i
			n++
		}
	}
	switch {
	case n == 0:
		return nil
	case ordered && last-first+1 == n:
		return queries[first : last+1 : last+1]
	}
	out := make([]Query, 0, n)
	for i := range queries {
		if chosen(&queries[i]) {
			out = append(out, queries[i])
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
	probers  map[string]*departures // by node
}

// last is about the queries with one outcome: lost, or answered.
type last struct {
	at    time.Duration // when the last one left, at the latest
	after time.Duration // when one of them certainly had not left yet
	any   bool
}

func (l *last) add(at, after time.Duration) {
	if !l.any || after > l.after {
		l.after = after
	}
	l.at, l.any = at, true
}

// departures are the last two moments at which queries of one prober are reported to have
// left. It sends one batch at a time. If one stalled, all of its queries have its end
// as their moment, so that only the moment before it is certainly earlier.
type departures struct{ at, before time.Duration }

// notBefore is a moment at which a query that left by left had certainly not left: it
// was not due, or the prober was still sending the batch before it.
func (d *departures) notBefore(q Query, left time.Duration) time.Duration {
	previous := d.at
	if previous >= left {
		previous = d.before
	}
	// A query whose answer came before its batch had ended has the time of that answer. A
	// later query of the batch may have left before this.
	if left > d.at && q.Done != left {
		d.before, d.at = d.at, left
	}
	return min(left, max(q.Intended, previous))
}

func (f *Finder) notBefore(q Query, left time.Duration) time.Duration {
	d := f.probers[q.Node]
	if d == nil {
		if d = new(departures); f.probers == nil {
			f.probers = map[string]*departures{}
		}
		f.probers[q.Node] = d
	}
	return d.notBefore(q, left)
}

// Add takes the next query in order of intended times. Those that were never sent
// show nothing.
func (f *Finder) Add(q Query) {
	if q.Outcome == Unsent {
		return
	}
	left := q.Left()
	after := f.notBefore(q, left)
	f.asked++
	if !q.Outcome.Lost() {
		f.answered.add(left, after)
		if f.now.Lost > 0 && f.now.Open {
			to := max(left, f.lost.at) // in a stalled batch the answer may come before the lost one's stamp
			f.now.To, f.now.ToMargin, f.now.Asked, f.now.Open = to, to-f.lost.after, f.asked, false
		}
		return
	}
	// Without an answer in between the window cannot have ended.
	if f.now.Lost > 0 && !f.now.Open && left-f.lost.at > f.Quiet {
		f.past = append(f.past, f.now)
		f.now = Window{}
	}
	if f.now.Lost == 0 {
		f.now.From, f.asked = left, 1
		if f.answered.any {
			f.now.FromMargin = max(0, left-f.answered.after)
		}
	}
	f.now.To, f.now.ToMargin, f.now.Open = left, 0, true
	f.now.Lost, f.now.Asked = f.now.Lost+1, f.asked
	f.lost.add(left, after)
}

// Windows are those found so far, the last of which may go on.
func (f *Finder) Windows() []Window {
	if f.now.Lost == 0 {
		return f.past
	}
	return append(f.past[:len(f.past):len(f.past)], f.now)
}

// Latest is the newest run of lost queries while they come in, in any order that is
// nearly that of their intended times: what a progress line can show before the
// windows are known. Verdicts rest on Windows.
type Latest struct {
	From  time.Duration // intended time of its first lost query
	Until time.Duration // of its last one
	Lost  int           // 0 if nothing was lost yet
}

// Add takes a query; one that was not lost changes nothing.
func (l *Latest) Add(q Query) {
	if !q.Outcome.Lost() {
		return
	}
	if l.Lost == 0 || q.Intended-l.Until > Quiet {
		l.From, l.Lost = q.Intended, 0
	}
	l.Until = max(l.Until, q.Intended)
	l.Lost++
}

// Length is how long queries were lost so far.
func (l Latest) Length() time.Duration { return l.Until - l.From }
