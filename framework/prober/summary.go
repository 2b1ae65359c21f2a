package prober

import (
	"fmt"
	"maps"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Summary has the figures of a probe: of all streams together, and of each stream.
type Summary struct {
	Figures
	Streams []QueryStreamSummary `json:"streams"` // in the order of the plan
	// Echo has the figures of the queries to the prober's own responder. The figures of
	// all streams do not include them.
	Echo Figures `json:"echo"`
}

// QueryStreamSummary holds the figures of one stream.
type QueryStreamSummary struct {
	Target string       `json:"target"`
	Mode   history.Mode `json:"mode"`
	// KeptSockets is the number of fresh ports that had their turns again with the same
	// socket. 0: in fresh mode each query had a socket of its own.
	KeptSockets int `json:"kept_sockets,omitempty"`
	Figures
}

// Figures count queries and measure times, all in nanoseconds.
type Figures struct {
	Asked  int `json:"asked"`  // every query of the schedule, including unsent ones
	Unsent int `json:"unsent"` // those that this prober could not send
	// SocketErrors counts how often this machine did not open a socket or did not take a
	// query. If it did so a moment later, the query was only late.
	SocketErrors int `json:"socket_errors,omitempty"`
	// Late is how long after its intended time a query left or was given up.
	LateP99 time.Duration `json:"late_p99"`
	LateMax time.Duration `json:"late_max"`
	// Outcomes holds no outcome that did not occur.
	Outcomes map[history.Outcome]int `json:"outcomes"`
	// Latency counts from the intended send time, so that a late prober does not make the
	// server look better. Response counts from the actual one.
	Latency  Latency `json:"latency"`
	Response Latency `json:"response"`
	// Ignored counts late and duplicate answers.
	Ignored int `json:"ignored,omitempty"`
	// Dropped counts answers that reached this machine but that the kernel dropped,
	// because the socket was full: their queries time out. With TCP there are none.
	Dropped int `json:"dropped,omitempty"`
	// Reused counts queries in fresh mode from a port that was used in the last 30 s:
	// connection tracking may still have its entry and send them to the same pod.
	Reused int `json:"reused,omitempty"`
	// Behind is why the schedule was not kept; empty if it was.
	Behind string `json:"behind,omitempty"`
}

// Lost is how many queries would have been DNS failures for a client.
func (f Figures) Lost() int {
	lost := 0
	for outcome, n := range f.Outcomes {
		if outcome.Lost() {
			lost += n
		}
	}
	return lost
}

// Latency is the time until the answer came, of answered queries only.
// Percentiles are exact to three digits.
type Latency struct {
	P50  time.Duration `json:"p50"`
	P90  time.Duration `json:"p90"`
	P99  time.Duration `json:"p99"`
	P999 time.Duration `json:"p999"`
	Max  time.Duration `json:"max"`
}

// longest is what the histograms hold; longer times count as this.
const longest = time.Minute

// times is a histogram that knows its greatest value exactly.
type times struct {
	*hdrhistogram.Histogram // microseconds
	most                    time.Duration
}

func newTimes() times { return times{Histogram: hdrhistogram.New(1, longest.Microseconds(), 3)} }

// add rounds up: a time of 0.4 µs is not 0.
func (t *times) add(d time.Duration) {
	_ = t.RecordValue(min(max(d, 1)+time.Microsecond-1, longest).Microseconds()) // in range
	t.most = max(t.most, d)
}

func (t *times) merge(other times) {
	t.Merge(other.Histogram)
	t.most = max(t.most, other.most)
}

func (t *times) at(percentile float64) time.Duration {
	return min(time.Duration(t.ValueAtPercentile(percentile))*time.Microsecond, t.most)
}

func (t *times) latency() Latency {
	return Latency{P50: t.at(50), P90: t.at(90), P99: t.at(99), P999: t.at(99.9), Max: t.most}
}

// tally counts queries. It is not safe for concurrent use.
type tally struct {
	stream                  QueryStream
	asked, unsent           int
	outcomes                map[history.Outcome]int
	latency, response, late times
	counts
}

func newTally(s QueryStream) *tally {
	return &tally{stream: s, outcomes: map[history.Outcome]int{}, latency: newTimes(), response: newTimes(), late: newTimes()}
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
		t.latency.add(q.Done - q.Intended)
		t.response.add(q.Done - q.Sent)
	}
	t.late.add(left - q.Intended)
}

func (t *tally) merge(a *account) {
	other := a.tally
	t.asked += other.asked
	t.unsent += other.unsent
	for outcome, n := range other.outcomes {
		t.outcomes[outcome] += n
	}
	t.latency.merge(other.latency)
	t.response.merge(other.response)
	t.late.merge(other.late)
	t.ignored += a.ignored
	t.dropped += a.dropped
	t.reused += a.reused
	t.errs += a.errs
	if t.reason == nil {
		t.reason = a.reason
	}
}

func (t *tally) figures() Figures {
	f := Figures{
		Asked: t.asked, Unsent: t.unsent, SocketErrors: t.errs, Ignored: t.ignored, Dropped: t.dropped, Reused: t.reused,
		LateP99: t.late.at(99), LateMax: t.late.most,
		Outcomes: maps.Clone(t.outcomes),
		Latency:  t.latency.latency(), Response: t.response.latency(),
	}
	switch {
	case t.unsent > 0:
		f.Behind = fmt.Sprintf("%d of %s not sent: %v", t.unsent, history.Count(t.asked, "query"), t.reason)
	case t.dropped > 0:
		f.Behind = fmt.Sprintf("%s dropped on arrival: this machine had too much load to receive them in time", history.Count(t.dropped, "answer"))
	}
	return f
}
