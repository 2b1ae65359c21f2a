package loss

import (
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// inserts are the times in which the kernel of each node dropped packets because it could not
// make their connection tracking entries.
type inserts map[string][]insertFailure

// insertFailure is one such time. The kernel does not report whose packets they were.
type insertFailure struct {
	from, to time.Duration
	failed   int
	// without is how many queries were sent meanwhile, got no answer and have no entry.
	without int
}

// proven reports whether the packets were those of the queries, one for each. If there were
// more, others were dropped as well, perhaps instead of them.
func (i insertFailure) proven() bool { return i.failed == i.without }

// newInserts reads those times. A node that lost some of the kernel's events has none: a query
// without an entry on record may have had one.
func newInserts(st *story.Story, t Target, fs flows) inserts {
	out, recorded := inserts{}, map[string]history.Event{}
	for _, e := range st.History.Events {
		if e.Kind == history.FlowsRecorded && e.Numbers[history.Overflows] == 0 {
			recorded[e.Node] = e
		}
	}
	for _, e := range st.History.Events {
		if end, ok := recorded[e.Node]; ok && e.Kind == history.InsertsFailed {
			from := e.At - e.Numbers.Duration(history.Within) - end.Numbers.Duration(history.Resolution)
			out[e.Node] = append(out[e.Node], insertFailure{from: from, to: e.At, failed: int(e.Numbers[history.InsertFailed])})
		}
	}
	for node, end := range recorded {
		// A record without the times has one count for the whole drill.
		if failed := int(end.Numbers[history.InsertFailed]); failed > 0 && out[node] == nil {
			out[node] = []insertFailure{{to: end.At, failed: failed}}
		}
	}
	for _, q := range st.History.Queries {
		if q.Target != t.Service || !q.Outcome.Lost() {
			continue
		}
		if _, ok := fs.of(q); !ok {
			if i := out.at(q); i != nil {
				i.without++
			}
		}
	}
	return out
}

// at is the time of dropped packets in which an unanswered query without an entry was sent; nil
// if there is none.
func (in inserts) at(q history.Query) *insertFailure {
	if q.Outcome != history.Timeout {
		return nil
	}
	of := in[q.Node]
	for i := range of {
		if q.Sent >= of[i].from && q.Sent <= of[i].to {
			return &of[i]
		}
	}
	return nil
}
