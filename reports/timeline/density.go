package timeline

import (
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
)

// AnswerRow is the fate of the queries to one target, in bins.
type AnswerRow struct {
	Name string
	Note string
	// Service reports whether what is lost here is an outage: the target is no control.
	Service bool
	// Width is the width of a bin; the first bin begins at the timeline's From.
	Width time.Duration
	Bins  []Bin
	// Peak is the largest number of queries in a bin.
	Peak int
	// Measured is what verdicts are based on: counts, windows and latencies.
	Measured loss.Stream
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

// answers is a row that is to be filled, with the queries that belong to it.
type answers struct {
	AnswerRow
	target string
	of     func(history.Mode) bool // nil for all
}

// rows are those of the DNS service, by port mode, then the control's and the echo's, then those
// of the application; none without a probe.
func (d picture) rows() []answers {
	dns := d.result.DNS
	if dns == nil {
		return nil
	}
	each, few := history.Mode.PortEach, func(m history.Mode) bool { return !m.PortEach() }
	rows := []answers{
		{AnswerRow{Name: "fresh ports", Note: "service, a new flow each", Measured: dns.Fresh, Service: true}, history.Service, each},
		{AnswerRow{Name: "fixed ports", Note: "service, long-lived flows", Measured: dns.Fixed, Service: true}, history.Service, few},
	}
	if tcp := dns.OverTCP(); tcp != nil {
		rows[0].of, rows[1].of = only(history.Fresh), only(history.Fixed)
		rows = append(rows,
			answers{AnswerRow{Name: "TCP", Note: "service, a new connection each", Measured: tcp.Fresh, Service: true}, history.Service, only(history.Connect)},
			answers{AnswerRow{Name: "TCP, kept", Note: "service, over kept connections", Measured: tcp.Fixed, Service: true}, history.Service, only(history.Kept)})
	}
	ours := d.Scenario.Observe == nil // in another cluster, the echo is the control
	if ours {
		rows = append(rows, answers{AnswerRow{Name: "control", Note: "a CoreDNS pod that stays", Measured: dns.Control}, history.Control, nil})
	}
	if dns.Echo.Asked > 0 {
		rows = append(rows, answers{AnswerRow{Name: "echo", Note: "the prober's own process", Measured: dns.Echo}, history.Echo, nil})
	}
	app := d.result.Application
	if app == nil {
		return rows
	}
	rows = append(rows, answers{AnswerRow{Name: "application", Note: "a new connection each", Measured: app.Fresh, Service: true}, history.Application, each})
	if app.Fixed.Asked > 0 {
		rows = append(rows, answers{AnswerRow{Name: "application, kept", Note: "over kept connections", Measured: app.Fixed, Service: true}, history.Application, few})
	}
	if !ours {
		return rows
	}
	return append(rows, answers{AnswerRow{Name: "application's control", Note: "a pod that stays", Measured: app.Control}, history.ApplicationControl, nil})
}

func only(mode history.Mode) func(history.Mode) bool {
	return func(m history.Mode) bool { return m == mode }
}

// streams are the rows, filled with queries.
func (d picture) streams() []AnswerRow {
	width := binWidth(d.to - d.from)
	count := int((d.to-d.from)/width) + 1
	rows := d.rows()
	for i := range rows {
		rows[i].Width, rows[i].Bins = width, make([]Bin, count)
	}
	for _, q := range d.History.Queries {
		if q.Intended < d.from || q.Intended > d.to {
			continue
		}
		i := slices.IndexFunc(rows, func(r answers) bool {
			return r.target == q.Target && (r.of == nil || r.of(q.Mode))
		})
		if i < 0 {
			continue
		}
		s := &rows[i]
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
	streams := make([]AnswerRow, len(rows))
	for i, r := range rows {
		streams[i] = r.AnswerRow
	}
	return streams
}
