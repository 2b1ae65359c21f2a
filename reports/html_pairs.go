package reports

import (
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/reports/timeline"
)

// pairPart sets a drill next to the one that shows how its outage is avoided, on one axis of
// milliseconds.
type pairPart struct {
	Halves        []pairHalf
	From, Span    string
	Before, After time.Duration
}

// pairHalf is the DNS answers of one of them.
type pairHalf struct {
	ID string
	Entry
	Streams []pairStream
}

type pairStream struct {
	streamPart
	Longest string // the longest window, "" without one
}

// pairParts are those of which both drills are in the report, with their histories.
func (r *Report) pairParts() []pairPart {
	var out []pairPart
	for _, e := range r.Results {
		i := slices.IndexFunc(r.Results, func(o Entry) bool { return o.Scenario == e.Counterpart })
		if i < 0 || len(serviceOf(e)) == 0 || len(serviceOf(r.Results[i])) == 0 {
			continue
		}
		out = append(out, newPairPart(e, r.Results[i]))
	}
	return out
}

func newPairPart(entries ...Entry) pairPart {
	var p pairPart
	for _, e := range entries {
		t := e.timeline
		p.Before, p.After = max(p.Before, t.Zero-t.From), max(p.After, t.To-t.Zero)
		half := pairHalf{ID: anchor(e), Entry: e}
		for _, s := range serviceOf(e) {
			stream := pairStream{streamPart: newStreamPart(t, s)}
			if w, ok := s.Measured.Longest(); ok {
				stream.Longest = windowLength(w)
			}
			half.Streams = append(half.Streams, stream)
		}
		p.Halves = append(p.Halves, half)
	}
	p.From, p.Span = width(-p.Before), width(p.Before+p.After)
	p.Before, p.After = p.Before.Round(time.Second), p.After.Round(time.Second)
	return p
}

// serviceOf are the streams to the DNS service, and to an application.
func serviceOf(e Entry) []timeline.AnswerRow {
	if e.timeline == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(e.timeline.Streams), func(s timeline.AnswerRow) bool { return !s.Service })
}
