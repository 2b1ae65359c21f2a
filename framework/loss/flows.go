package loss

import (
	"cmp"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

const (
	// entryLife is for how long the kernel keeps an unused entry of UDP at least
	// (nf_conntrack_udp_timeout).
	entryLife = 30 * time.Second
	// recorderStall is how late a recorder without processor time may hear of a flow.
	// No port is used twice in that time except the fixed ones, which have a flow.
	recorderStall = time.Second
)

// flows are the connection tracking entries by which queries went.
type flows struct {
	all     []history.Flow            // to the target
	from    map[source][]history.Flow // in order of time
	both    bool                      // UDP and TCP are distinguished; otherwise the target is queried over one of them
	late    time.Duration             // how late a flow's times may be
	tracked map[string]bool           // nodes whose flows are on record
}

// source is where queries come from.
type source struct {
	node string
	port int
	tcp  bool // only if flows.both
}

// source is where a query came from.
func (fs flows) source(q history.Query) source {
	return source{q.Node, q.Port, fs.both && q.Mode.OverTCP()}
}

// Tracked reports whether connection tracking was recorded on any node.
func Tracked(st *story.Story) bool {
	_, recorded := st.FirstOf(history.FlowsRecorded)
	return recorded
}

func newFlows(st *story.Story, t Target) flows {
	fs := flows{from: map[source][]history.Flow{}, tracked: map[string]bool{}, both: t.both}
	for _, f := range st.History.Flows {
		if f.Target != t.flows {
			continue
		}
		from := source{f.Node, f.Port, fs.both && f.TCP}
		fs.all, fs.from[from] = append(fs.all, f), append(fs.from[from], f)
	}
	for _, of := range fs.from {
		slices.SortStableFunc(of, func(a, b history.Flow) int { return cmp.Compare(a.From, b.From) })
	}
	for _, e := range st.AllOf(history.FlowsRecorded) {
		fs.tracked[e.Node] = true
	}
	if e, ok := st.FirstOf(history.FlowsRecorded); ok {
		fs.late = 2 * e.Numbers.Duration(history.Resolution)
	}
	return fs
}

// of is the entry by which a query went: the last of its port's that began
// before it or with it, and if there was none any more, the one that began
// because of it, of which a busy recorder heard late. A query that was rejected
// has none.
func (fs flows) of(q history.Query) (history.Flow, bool) {
	flows := fs.from[fs.source(q)]
	i, _ := slices.BinarySearchFunc(flows, q.Sent+fs.late, func(f history.Flow, at time.Duration) int { return cmp.Compare(f.From, at) })
	if i > 0 && (flows[i-1].To == 0 || flows[i-1].To >= q.Sent) && !fs.expired(flows[i-1:], q) {
		return flows[i-1], true
	}
	if i < len(flows) && flows[i].From <= q.Sent+recorderStall {
		return flows[i], true
	}
	return history.Flow{}, false
}

// expired reports whether the first of a port's flows had expired when a query was sent from
// a fresh port, so that the query began the next one. The kernel reports the end of an
// unused entry when the port is used again, and then the next entry at once.
func (fs flows) expired(of []history.Flow, q history.Query) bool {
	if q.Mode != history.Fresh || len(of) < 2 || q.Sent-of[0].From <= entryLife {
		return false
	}
	return of[1].From <= q.Sent+recorderStall && of[1].From-of[0].To <= fs.late
}

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
