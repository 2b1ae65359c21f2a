package reports

import (
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports/timeline"
)

// sequencePart is what the template sequence.html shows: a column for each part, and a row for each call.
type sequencePart struct {
	timeline.Sequence
	ID, Origin string
	Open       bool // the drill did not pass
	Rows       []sequenceRow
}

type sequenceRow struct {
	timeline.Call
	A, B  int    // the columns of From and To
	After string // since the timeline's zero
	Axis  string // on the timeline's axis
	Cited bool   // by a verdict that is no pass
}

func newSequencePart(e Entry) *sequencePart {
	t := e.timeline
	if len(t.Sequence.Calls) == 0 {
		return nil
	}
	p := &sequencePart{Sequence: t.Sequence, ID: anchor(e), Origin: t.Origin, Open: slices.Contains([]verdict.Outcome{verdict.Fail, verdict.Unknown}, e.Outcome.Known())}
	cited := map[int]bool{}
	for _, v := range e.Verdicts {
		for _, seq := range v.Evidence {
			cited[seq] = cited[seq] || v.Outcome.Known() != verdict.Pass
		}
	}
	for _, c := range t.Sequence.Calls {
		p.Rows = append(p.Rows, sequenceRow{
			Call: c, A: slices.Index(p.Parts, c.From), B: slices.Index(p.Parts, c.To),
			After: exact(t, c.At), Axis: axisTime(t, c.At), Cited: c.Seq > 0 && cited[c.Seq],
		})
	}
	return p
}

// Between is the way of a call in words.
func (r sequenceRow) Between() string {
	if r.From == r.To {
		return string(r.From)
	}
	return string(r.From + " to " + r.To)
}

// Span is how long several calls took.
func (r sequenceRow) Span() string {
	if r.Last <= r.At {
		return ""
	}
	return fmt.Sprintf("within %.1f s", (r.Last - r.At).Seconds())
}

// Class is how the row's call is drawn: as a moment, or an arrow to the right or to the left.
func (r sequenceRow) Class() string {
	switch {
	case r.A == r.B:
		return "moment"
	case r.A < r.B:
		return "there"
	}
	return "back"
}

// First and Width are where an arrow begins on the left, and how many columns it crosses.
func (r sequenceRow) First() int { return min(r.A, r.B) }

// Width is 0 for a moment.
func (r sequenceRow) Width() int { return max(r.A, r.B) - r.First() }

// Right reports whether the text stands at the right end: there is more room to its left.
func (p *sequencePart) Right(r sequenceRow) bool { return r.A+r.B >= len(p.Parts) }

// After the arrow's right end are so many columns.
func (p *sequencePart) Rest(r sequenceRow) int { return len(p.Parts) - 1 - max(r.A, r.B) }
