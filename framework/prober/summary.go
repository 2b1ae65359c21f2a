package prober

import (
	"fmt"
	"maps"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Summary is what Run did: the figures of all streams together, and of each.
type Summary struct {
	Figures
	Streams []StreamSummary `json:"streams"` // in the order of the plan
}

// StreamSummary holds the figures of one stream.
type StreamSummary struct {
	Target string       `json:"target"`
	Mode   history.Mode `json:"mode"`
	Figures
}

// Figures count queries and measure times, all in nanoseconds.
type Figures struct {
	Asked  int `json:"asked"`  // every query of the schedule, the unsent included
	Unsent int `json:"unsent"` // those that this prober could not send
	// Late is how long after its intended time a query left or was given up.
	LateP99 time.Duration `json:"late_p99"`
	LateMax time.Duration `json:"late_max"`
	// Outcomes holds no outcome that did not occur.
	Outcomes map[history.Outcome]int `json:"outcomes"`
	Latency  Latency                 `json:"latency"`
	// Ignored counts late and duplicate answers on fixed ports.
	Ignored int `json:"ignored,omitempty"`
	// Behind says why the schedule was not kept, and is empty where it was.
	Behind string `json:"behind,omitempty"`
}

// Lost is how many queries a client would have felt as failures of DNS.
func (f Figures) Lost() int {
	lost := 0
	for outcome, n := range f.Outcomes {
		if outcome.Lost() {
			lost += n
		}
	}
	return lost
}

// Latency is the time from the intended sending to the answer, of answered
// queries only. Percentiles are exact to three digits.
type Latency struct {
	P50  time.Duration `json:"p50"`
	P90  time.Duration `json:"p90"`
	P99  time.Duration `json:"p99"`
	P999 time.Duration `json:"p999"`
	Max  time.Duration `json:"max"`
}

// longest is what the histograms hold; longer times count as this.
const longest = time.Minute

// tally counts queries. It is not safe for concurrent use.
type tally struct {
	stream        Stream
	asked, unsent int
	outcomes      map[history.Outcome]int
	latency, late *hdrhistogram.Histogram // microseconds
	latencyMax    time.Duration
	lateMax       time.Duration
	ignored       int
	trouble       error
}

func newTally(s Stream) *tally {
	histogram := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, longest.Microseconds(), 3) }
	return &tally{stream: s, outcomes: map[history.Outcome]int{}, latency: histogram(), late: histogram()}
}

func (t *tally) add(q history.Query) {
	t.asked++
	t.outcomes[q.Outcome]++
	left := q.Sent
	switch q.Outcome {
	case history.Unsent:
		t.unsent++
		left = q.Done
	case history.Answered:
		t.latencyMax = max(t.latencyMax, record(t.latency, q.Done-q.Intended))
	}
	t.lateMax = max(t.lateMax, record(t.late, left-q.Intended))
}

// record rounds up: a time of 0.4 µs is not 0.
func record(h *hdrhistogram.Histogram, d time.Duration) time.Duration {
	rounded := min(max(d, 1)+time.Microsecond-1, longest).Microseconds()
	_ = h.RecordValue(rounded) // in range by the line above
	return d
}

func (t *tally) merge(other *tally, ignored int, trouble error) {
	t.asked += other.asked
	t.unsent += other.unsent
	for outcome, n := range other.outcomes {
		t.outcomes[outcome] += n
	}
	t.latency.Merge(other.latency)
	t.late.Merge(other.late)
	t.latencyMax = max(t.latencyMax, other.latencyMax)
	t.lateMax = max(t.lateMax, other.lateMax)
	t.ignored += ignored
	if t.trouble == nil {
		t.trouble = trouble
	}
}

func (t *tally) figures() Figures {
	at := func(h *hdrhistogram.Histogram, percentile float64, most time.Duration) time.Duration {
		return min(time.Duration(h.ValueAtPercentile(percentile))*time.Microsecond, most)
	}
	f := Figures{
		Asked: t.asked, Unsent: t.unsent, Ignored: t.ignored,
		LateP99: at(t.late, 99, t.lateMax), LateMax: t.lateMax,
		Outcomes: maps.Clone(t.outcomes),
		Latency: Latency{
			P50:  at(t.latency, 50, t.latencyMax),
			P90:  at(t.latency, 90, t.latencyMax),
			P99:  at(t.latency, 99, t.latencyMax),
			P999: at(t.latency, 99.9, t.latencyMax),
			Max:  t.latencyMax,
		},
	}
	if t.unsent > 0 {
		f.Behind = fmt.Sprintf("%d of %d queries were not sent: %v", t.unsent, t.asked, t.trouble)
	}
	return f
}
