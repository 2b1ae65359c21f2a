package timeline

import (
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

// AnswerRow is the fate of the queries to one target, in bins.
type AnswerRow struct {
	Name string
	Note string
	// Width is the width of a bin; the first bin begins at the timeline's From.
	Width time.Duration
	Bins  []Bin
	// Peak is the largest number of queries in a bin.
	Peak int
	// Measured is what verdicts are based on: counts, windows and latencies.
	Measured verdict.Stream
	Unsent   int
}

// Bin counts the queries that were due to be sent within it.
type Bin struct{ Asked, Lost, Unsent int }

// maxBins keeps the file small: a bin is at most two pixels wide on a screen,
// and the windows have their exact edges anyway.
const maxBins = 2000

// binWidth is the smallest round width that needs at most maxBins bins.
func binWidth(shown time.Duration) time.Duration {
	for unit := time.Millisecond; ; unit *= 10 {
		for _, n := range []time.Duration{1, 2, 5} {
			if shown <= n*unit*maxBins {
				return n * unit
			}
		}
	}
}

// streams are the service's, by port mode, then the control's and the echo's; none
// without a probe.
func (d picture) streams() []AnswerRow {
	dns := d.result.DNS
	if dns == nil {
		return nil
	}
	width := binWidth(d.to - d.from)
	count := int((d.to-d.from)/width) + 1
	streams := []AnswerRow{
		{Name: "fresh ports", Note: "service, a new flow each", Measured: dns.Fresh},
		{Name: "fixed ports", Note: "service, long-lived flows", Measured: dns.Fixed},
		{Name: "control", Note: "a CoreDNS pod that stays", Measured: dns.Control},
	}
	if dns.Echo.Asked > 0 {
		streams = append(streams, AnswerRow{Name: "echo", Note: "the prober's own process", Measured: dns.Echo})
	}
	for i := range streams {
		streams[i].Width, streams[i].Bins = width, make([]Bin, count)
	}
	for _, q := range d.History.Queries {
		lane := streamOf(q)
		if q.Intended < d.from || q.Intended > d.to || lane >= len(streams) {
			continue
		}
		s := &streams[lane]
		b := &s.Bins[(q.Intended-d.from)/width]
		switch {
		case q.Outcome == history.Unsent:
			b.Unsent++
			s.Unsent++
		case q.Outcome.Lost():
			b.Lost++
			b.Asked++
		default:
			b.Asked++
		}
		s.Peak = max(s.Peak, b.Asked+b.Unsent)
	}
	return streams
}

// streamOf is the index of a query's stream: fresh, fixed, control.
func streamOf(q history.Query) int {
	switch {
	case q.Target == history.Control:
		return 2
	case q.Target == history.Echo:
		return 3
	case !q.Mode.PortEach():
		return 1
	}
	return 0
}
