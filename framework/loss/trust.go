package loss

import (
	"fmt"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

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
		return fmt.Sprintf("%d queries on record, %.0f expected", asked, expected)
	}
	return ""
}
