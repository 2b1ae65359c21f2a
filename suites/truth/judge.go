package main

import (
	"fmt"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
)

// tally is how a prober's windows compare with the truth.
type tally struct {
	outages  int
	exact    int // both edges within the bound
	wide     int // an edge is off by more, but the window says by how much at most, within widest, and is right
	wrong    int // an edge is off by more than the window says
	missed   int
	invented int
	unknown  int // an edge lies in an interval of which the prober says it knows nothing, or the server cannot say when it was
	again    int // sessions that were set aside and played again
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

// blurred counts the outages whose edges were not found within the bound though
// nothing said of them is untrue: this machine stalled there.
func (t tally) blurred() int { return t.wide + t.unknown }

// setAside counts a session that is played again for what was blurred of it. What it
// got wrong stays: a second try does not undo that.
func (t *tally) setAside(one tally) {
	t.add(tally{again: 1, aside: one.blurred(), wrong: one.wrong, missed: one.missed, invented: one.invented, details: one.details})
}

// sharp fails where an outage of one rate was blurred each time that it was played.
func (t tally) sharp(rate int) error {
	if t.blurred() == 0 {
		return nil
	}
	return fmt.Errorf("not within %v: %d of %d outages at %d/s, %d of them unknown, however often they were played; this machine was too busy",
		bound(rate), t.blurred(), t.outages, rate, t.unknown)
}

// widest is how wide a margin may be stated: a prober that stalled for longer gives
// queries up, and what it says of an edge then is that it does not know.
const widest = prober.Tolerance

// bound is how far off a window's edge may be.
func bound(rate int) time.Duration { return 2*time.Second/time.Duration(rate) + time.Millisecond }

// slack is how long a query may be on its way to the server, on loopback.
const slack = time.Millisecond

// compare holds windows against the outages that there were, all on one clock.
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

// outside is how far a moment lies outside an interval.
func outside(at, from, to time.Duration) time.Duration { return max(from-at, at-to, 0) }

func within(doubts []history.Doubt, at time.Duration) bool {
	for _, d := range doubts {
		if d.From-slack <= at && at <= d.To+slack {
			return true
		}
	}
	return false
}
