package history

import (
	"fmt"
	"time"
)

// Doubt is an interval in which a probe proves nothing of the server: a loss may
// be the prober's own, and an outage may have been missed.
type Doubt struct {
	From   time.Duration `json:"from"`
	To     time.Duration `json:"to"`
	Reason string        `json:"reason"`
}

// Doubter finds doubts while queries come in. It merges those that meet and keeps
// no queries.
type Doubter struct {
	// Lag is how late a control may answer, as latency from the intended time.
	Lag time.Duration
	// Reach is how far from a control's query that was lost or late its doubt goes:
	// about the interval at which the control is queried.
	Reach time.Duration
	// Hole is how long a stream may send nothing.
	Hole time.Duration

	doubts []Doubt
	last   time.Duration // when a query left last, or the first was due
	begun  bool
}

// Control takes the next query to a control, in order of intended times.
func (d *Doubter) Control(q Query) {
	switch {
	case q.Outcome == Unsent:
		// The stream that is watched has a hole then.
	case q.Outcome.Lost():
		d.add(q.Left()-d.Reach, q.Left()+d.Reach, fmt.Sprintf("%s: %s", q.Target, q.Outcome))
	case q.Done-q.Intended > d.Lag:
		d.add(q.Intended-d.Reach, q.Done+d.Reach, fmt.Sprintf("%s: answered after more than %v", q.Target, d.Lag))
	}
}

// Sent takes the next query of the stream that is watched, unsent ones included, in
// order of intended times.
func (d *Doubter) Sent(q Query) {
	if !d.begun { // a hole may be there from the start
		d.last, d.begun = q.Intended, true
	}
	left := q.Left()
	if left-d.last > d.Hole {
		d.add(d.last, left, "nothing was sent")
	}
	if q.Outcome != Unsent {
		d.last = left
	}
}

func (d *Doubter) add(from, to time.Duration, reason string) {
	for n := len(d.doubts) - 1; n >= 0 && d.doubts[n].To >= from; n-- {
		from, to = min(from, d.doubts[n].From), max(to, d.doubts[n].To)
		reason = d.doubts[n].Reason
		d.doubts = d.doubts[:n]
	}
	d.doubts = append(d.doubts, Doubt{from, to, reason})
}

// Doubts are those found so far.
func (d *Doubter) Doubts() []Doubt { return d.doubts }

// Doubtful reports whether a moment is within a doubt. A doubt's edges are not: a
// query that left there did leave.
func (d *Doubter) Doubtful(at time.Duration) bool {
	for n := len(d.doubts) - 1; n >= 0 && d.doubts[n].To > at; n-- {
		if d.doubts[n].From < at {
			return true
		}
	}
	return false
}
