package loss

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// BaselineTime is for how long DNS must have answered everything before the first notice:
// losses after a fault prove nothing if there were some before.
const BaselineTime = time.Second

// Measurement is what the prober measured at a service from the second before the first notice
// until the cluster was being put back.
type Measurement struct {
	Fresh Stream // a port for each query
	Fixed Stream // a few ports
	// Connect and Kept are the same over TCP, if the service is queried over UDP, which is then Fresh and Fixed, and TCP.
	Connect, Kept Stream
	Control       Stream // a pod that stays, queried directly
	Echo          Stream // the responder in the prober's own process
}

// Measure returns nil if the scenario has no probe.
func Measure(st *story.Story, t Target) *Measurement {
	if st.Scenario.Probe == nil {
		return nil
	}
	from, _ := st.Started()
	from -= BaselineTime
	of := func(portEach, tcp bool) Stream {
		return newStream(history.QueriesWithin(st.History.Queries, from, st.End, t.Service, slices.DeleteFunc(history.Modes(), func(m history.Mode) bool {
			return m.PortEach() != portEach || t.both && m.OverTCP() != tcp
		})...))
	}
	m := &Measurement{
		Fresh: of(true, false), Fixed: of(false, false),
		Control: newStream(history.QueriesWithin(st.History.Queries, from, st.End, t.Control, history.Modes()...)),
		Echo:    newStream(history.QueriesWithin(st.History.Queries, from, st.End, history.Echo, history.Fixed)),
	}
	if t.both {
		m.Connect, m.Kept = of(true, true), of(false, true)
	}
	return m
}

// OverTCP is what was measured over TCP next to UDP; nil if the service was queried over one of them.
func (m Measurement) OverTCP() *Measurement {
	if m.Connect.Asked+m.Kept.Asked == 0 {
		return nil
	}
	return &Measurement{Fresh: m.Connect, Fixed: m.Kept, Control: m.Control}
}

// Streams are the service's streams that a check's mode selects.
func (m Measurement) Streams(mode string) Streams {
	all := Streams{history.Fresh: m.Fresh, history.Fixed: m.Fixed}
	if m.OverTCP() != nil {
		all[history.Connect], all[history.Kept] = m.Connect, m.Kept
	}
	for of := range all {
		if mode != "all" && (mode != string(history.Fresh) || !of.PortEach()) && (mode != string(history.Fixed) || of.PortEach()) {
			delete(all, of)
		}
	}
	return all
}

// Stream is what became of the queries of one target and mode.
type Stream struct {
	Asked   int // without those that never left
	Lost    int
	Windows []history.Window
	// P50 and P99 are latencies of the answered queries, from the intended send
	// time; 0 if none was answered.
	P50 time.Duration
	P99 time.Duration
	// Queries are those that it is made of.
	Queries []history.Query
}

func newStream(queries []history.Query) Stream {
	s := Stream{Asked: len(queries), Windows: history.Windows(queries, history.Quiet), Queries: queries}
	var latencies []time.Duration
	for _, q := range queries {
		if q.Outcome.Lost() {
			s.Lost++
			continue
		}
		latencies = append(latencies, q.Done-q.Intended)
	}
	if n := len(latencies); n > 0 {
		slices.Sort(latencies)
		s.P50, s.P99 = latencies[(n-1)*50/100], latencies[(n-1)*99/100]
	}
	return s
}

// Longest is the longest window in which queries were lost; false if there is none.
func (s Stream) Longest() (history.Window, bool) {
	if len(s.Windows) == 0 {
		return history.Window{}, false
	}
	return slices.MaxFunc(s.Windows, func(a, b history.Window) int { return cmp.Compare(a.Length(), b.Length()) }), true
}

// without is the stream without the queries that drop accepts.
func (s Stream) without(drop func(history.Query) bool) Stream {
	return newStream(slices.DeleteFunc(slices.Clone(s.Queries), drop))
}

// Streams are streams of the service by mode: fresh stands for all modes with a port for each query, unless there
// are streams over UDP and TCP.
type Streams map[history.Mode]Stream

// Modes are those of a service's streams, in the order in which they are reported.
func Modes() []history.Mode {
	return []history.Mode{history.Fresh, history.Fixed, history.Connect, history.Kept}
}

// Lost is how many queries were lost.
func (all Streams) Lost() (lost int) {
	for _, s := range all {
		lost += s.Lost
	}
	return lost
}

// Longest is the longest window of the streams, and whether any is open.
func (all Streams) Longest() (w history.Window, open bool) {
	for _, mode := range Modes() {
		for _, other := range all[mode].Windows {
			open = open || other.Open
			if other.Length() >= w.Length() {
				w = other
			}
		}
	}
	return w, open
}

// Numbers are its figures, by name.
func (m Measurement) Numbers() map[string]float64 {
	out := map[string]float64{"asked_control": float64(m.Control.Asked), "lost_control": float64(m.Control.Lost)}
	for mode, s := range m.Streams("all") {
		longest, _ := s.Longest()
		out[fmt.Sprintf("asked_%s", mode)] = float64(s.Asked)
		out[fmt.Sprintf("lost_%s", mode)] = float64(s.Lost)
		out[fmt.Sprintf("windows_%s", mode)] = float64(len(s.Windows))
		out[fmt.Sprintf("window_%s_max_ms", mode)] = Milliseconds(longest.Length())
		out[fmt.Sprintf("latency_%s_p50_ms", mode)] = Milliseconds(s.P50)
		out[fmt.Sprintf("latency_%s_p99_ms", mode)] = Milliseconds(s.P99)
	}
	return out
}

// Milliseconds is a duration as a figure.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// The limits within which a measurement is trusted.
const (
	// AskedShare is how much of a stream's schedule must be on record.
	AskedShare = 0.9
	// GapMax is the longest time without a query on record in a stream. A longer
	// one could hide a whole window's edge, see history.Quiet.
	GapMax = history.Quiet / 2
	// UnsentShare is how many queries may have failed to leave. GapMax bounds each hole
	// that they leave, and Attribution.Hiding those that matter most.
	UnsentShare = 0.02
	// LateP99 is how late a query may leave: below GapMax. Shared machines stall everything
	// on them for tens of milliseconds. Around the moments at which a drill may lose
	// queries, Attribution.Hiding is stricter.
	LateP99 = 200 * time.Millisecond
	// Edge is how early before the end of settling the last query may lie.
	Edge = time.Second
)

// RecordedTo is up to when each prober must have queries on record.
func RecordedTo(st *story.Story) time.Duration {
	to := st.Observed
	for _, e := range st.Events {
		if history.Settle.BegunBy(e) {
			to = min(to, e.At+st.Scenario.Settle.D()) - Edge
			break
		}
	}
	return to
}

// Thin is why the stream is not dense enough to be believed, or "", given its rate in
// queries per second.
func (s Stream) Thin(st *story.Story, rate int) string {
	from, _ := st.Started()
	from -= BaselineTime
	to := RecordedTo(st)
	if last := s.Queries[len(s.Queries)-1].Intended; last < to {
		return fmt.Sprintf("the last query is of +%s, the drill went on until +%s", history.Seconds(last), history.Seconds(to))
	}
	if first := s.Queries[0].Intended; first > from+GapMax {
		return fmt.Sprintf("the first query is of +%s, too late for the baseline from +%s", history.Seconds(first), history.Seconds(from))
	}
	asked := 0
	for i, q := range s.Queries {
		if q.Intended <= to {
			asked++
		}
		if i > 0 && q.Intended-s.Queries[i-1].Intended > GapMax {
			return fmt.Sprintf("no query on record between +%s and +%s", history.Seconds(s.Queries[i-1].Intended), history.Seconds(q.Intended))
		}
	}
	if expected := float64(rate) * (to - from).Seconds(); float64(asked) < AskedShare*expected {
		return fmt.Sprintf("%s on record, %.0f expected", history.Count(asked, "query"), expected)
	}
	return ""
}
