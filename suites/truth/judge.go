package main

import (
	"fmt"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
)

// tally counts how a prober's windows compare with the truth.
type tally struct {
	outages  int
	exact    int // both edges within the bound
	wide     int // an edge is off by more, but within the margin that the window states, which is within widest
	wrong    int // an edge is off by more than the margin
	missed   int
	invented int
	unknown  int // an edge is in an interval of doubt, or the server does not know its time
	again    int // sessions that were set aside and repeated
	aside    int // blurred outages in these
	worst    time.Duration
	details  []string
}

func (t *tally) add(other tally) {
	t.outages += other.outages
	t.exact += other.exact
	t.wide += other.wide
	t.wrong += other.wrong
	t.missed += other.missed
	t.invented += other.invented
	t.unknown += other.unknown
	t.again += other.again
	t.aside += other.aside
	t.worst = max(t.worst, other.worst)
	t.details = append(t.details, other.details...)
}

// blurred counts the outages whose edges were not found within the bound, although
// nothing reported is wrong: this machine stalled there.
func (t tally) blurred() int { return t.wide + t.unknown }

// setAside counts a session that is repeated because of blurred outages. Its errors still
// count.
func (t *tally) setAside(one tally) {
	t.add(tally{again: 1, aside: one.blurred(), wrong: one.wrong, missed: one.missed, invented: one.invented, details: one.details})
}

// sharp fails if an outage of one rate was blurred each time that it was played.
func (t tally) sharp(rate int) error {
	if t.blurred() == 0 {
		return nil
	}
	return fmt.Errorf("not within %v: %d of %d outages at %d/s, %d of them unknown, in every repetition; this machine had too much load",
		bound(rate), t.blurred(), t.outages, rate, t.unknown)
}

// widest is the largest margin that may be stated: a prober that stalled for longer gives
// up queries, and such an edge is in an interval of doubt.
const widest = prober.Tolerance

// bound is the largest error of a window's edge.
func bound(rate int) time.Duration { return 2*time.Second/time.Duration(rate) + time.Millisecond }

// slack is how long a query may take to the server, on loopback.
const slack = time.Millisecond

// compare compares windows with the actual outages, all on one clock.
func compare(truth []played, windows []history.Window, doubts []history.Doubt, rate int) tally {
	t := tally{outages: len(truth)}
	used := make([]bool, len(windows))
	for _, o := range truth {
		found := -1
		for i, w := range windows {
			if !used[i] && w.From-w.FromMargin < o.to+o.after+slack && w.To > o.from-o.before-slack {
				found = i
				break
			}
		}
		vague := max(o.before, o.after) > slack
		doubtful := vague || within(doubts, o.from) || within(doubts, o.to)
		if found < 0 {
			if doubtful {
				t.unknown++
			} else {
				t.missed++
				t.details = append(t.details, fmt.Sprintf("missed: %s for %v", o.kind, o.to-o.from))
			}
			continue
		}
		used[found] = true
		w := windows[found]
		edges := fmt.Sprintf("%s for %v: begins %v and ends %v off, margins %v and %v",
			o.kind, o.to-o.from, w.From-o.from, w.To-o.to, w.FromMargin, w.ToMargin)
		off := max(outside(w.From, o.from-o.before, o.from), outside(w.To, o.to, o.to+o.after))
		stated := max(w.FromMargin, w.ToMargin) <= widest &&
			o.from-o.before <= w.From+slack && o.from >= w.From-w.FromMargin-slack &&
			o.to <= w.To+slack && o.to+o.after >= w.To-w.ToMargin-slack
		switch {
		case vague:
			t.unknown++
		case off <= bound(rate):
			t.exact++
			t.worst = max(t.worst, off)
		case stated:
			t.wide++
			t.details = append(t.details, "stated wider: "+edges)
		case doubtful:
			t.unknown++
		default:
			t.wrong++
			t.details = append(t.details, "wrong: "+edges)
		}
	}
	for i, w := range windows {
		if !used[i] {
			t.invented++
			t.details = append(t.details, fmt.Sprintf("invented: %v with %d lost", w.Length(), w.Lost))
		}
	}
	return t
}

// outside is the distance of a moment from an interval.
func outside(at, from, to time.Duration) time.Duration { return max(from-at, at-to, 0) }

func within(doubts []history.Doubt, at time.Duration) bool {
	for _, d := range doubts {
		if d.From-slack <= at && at <= d.To+slack {
			return true
		}
	}
	return false
}
