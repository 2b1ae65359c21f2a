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
	out, recorded := map[string][]inserts{}, map[string]history.Event{}
	for _, e := range j.History.Events {
		if e.Kind == history.FlowsRecorded && e.Numbers[history.Overflows] == 0 {
			recorded[e.Node] = e
		}
	}
	for _, e := range j.History.Events {
		if end, ok := recorded[e.Node]; ok && e.Kind == history.InsertsFailed {
			from := e.At - e.Numbers.Duration(history.Within) - end.Numbers.Duration(history.Resolution)
			out[e.Node] = append(out[e.Node], inserts{from: from, to: e.At, failed: int(e.Numbers[history.InsertFailed])})
		}
	}
	for node, end := range recorded {
		// A record without the times has one count for the whole drill.
		if failed := int(end.Numbers[history.InsertFailed]); failed > 0 && out[node] == nil {
			out[node] = []inserts{{to: end.At, failed: failed}}
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
