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
	late    time.Duration             // how late a flow's times may be
	tracked map[string]bool           // nodes whose flows are on record
}

// source is where queries come from.
type source struct {
	node string
	port int
}

// Tracked reports whether connection tracking was recorded on any node.
func Tracked(st *story.Story) bool {
	_, recorded := st.FirstOf(history.FlowsRecorded)
	return recorded
}

func newFlows(st *story.Story, t Target) flows {
	fs := flows{from: map[source][]history.Flow{}, tracked: map[string]bool{}}
	for _, f := range st.History.Flows {
		if f.Target != t.flows {
			continue
		}
		from := source{f.Node, f.Port}
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
	flows := fs.from[source{q.Node, q.Port}]
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
