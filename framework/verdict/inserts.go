package verdict

import (
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// inserts is a time in which the kernel of a node dropped packets because it could not make
// their connection tracking entries. It does not say whose.
type inserts struct {
	from, to time.Duration
	failed   int
	// without is how many queries were sent meanwhile, got no answer and have no entry.
	without int
}

func (i inserts) holds(sent time.Duration) bool { return sent >= i.from && sent <= i.to }

// proven reports whether the packets were those of the queries, one for each. If there were
// more, others were dropped as well, perhaps instead of them.
func (i inserts) proven() bool { return i.failed == i.without }

// insertFailures are those times by node. A node that lost some of the kernel's events has
// none: a query without an entry on record may have had one.
func (j judge) insertFailures() map[string][]inserts {
	out := map[string][]inserts{}
	timed := map[string]bool{}
	late := map[string]time.Duration{}
	lost := map[string]bool{}
	for _, e := range j.History.Events {
		if e.Kind == history.FlowsRecorded {
			late[e.Node] = time.Duration(e.Numbers[history.Resolution] * float64(time.Second))
			lost[e.Node] = e.Numbers[history.Overflows] > 0
		}
	}
	for _, e := range j.History.Events {
		if e.Kind == history.InsertsFailed && !lost[e.Node] {
			timed[e.Node] = true
			within := time.Duration(e.Numbers[history.Within] * float64(time.Second))
			out[e.Node] = append(out[e.Node], inserts{from: e.At - within - late[e.Node], to: e.At, failed: int(e.Numbers[history.InsertFailed])})
		}
	}
	for _, e := range j.History.Events {
		// A record without the times has one count for the whole drill.
		if e.Kind == history.FlowsRecorded && !lost[e.Node] && !timed[e.Node] && e.Numbers[history.InsertFailed] > 0 {
			out[e.Node] = []inserts{{to: e.At, failed: int(e.Numbers[history.InsertFailed])}}
		}
	}
	return out
}

// insertsAt is the time of dropped packets in which an unanswered query without an entry was
// sent; nil if there is none.
func (t traffic) insertsAt(q history.Query) *inserts {
	if q.Outcome != history.Timeout {
		return nil
	}
	of := t.inserts[q.Node]
	for i := range of {
		if of[i].holds(q.Sent) {
			return &of[i]
		}
	}
	return nil
}
