package loss

import (
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// lateQuery is how late a query may leave whose loss is the cluster's: well below a
// resolver's timeout, and a fifth of history.Quiet.
const lateQuery = 100 * time.Millisecond

// finding is what a lost query was lost to.
type finding struct {
	cause   Cause
	backend string // the IP of the pod; empty if the cause is not one pod's
	// lag is how long after the pod's last answer the query was sent; waited is for how long earlier
	// ones waited there, or the pod for a processor.
	lag, waited time.Duration
}

// evidence is what causes are found by.
type evidence struct {
	target    Target
	inserts   inserts
	starved   starved
	lags      lags
	endpoints endpoints
	cuts      cuts
}

// newCauses finds the cause of each lost query of a measurement.
func newCauses(m Measurement, e evidence) map[history.Query]finding {
	out := map[history.Query]finding{}
	for _, s := range m.Streams("all") {
		for _, q := range s.Queries {
			if q.Outcome.Lost() {
				out[q] = e.cause(q)
			}
		}
	}
	return out
}

func (e evidence) cause(q history.Query) finding {
	flow, known := e.starved.of(q)
	// The entry of a used port may be one that a later query began. The kernel reports
	// port unreachable some six times at once and then once a second (icmp(7)).
	nowhere := !known || flow.From > q.Sent+e.starved.late
	if nowhere && (q.Outcome == history.ICMP || q.Outcome == history.Timeout) && e.endpoints.none(q.Sent) {
		return finding{cause: NoEndpoint}
	}
	if !known {
		return finding{cause: e.withoutEntry(q)}
	}
	b := e.starved.byIP[flow.Backend]
	if s, ok := b.silent(q.Sent); ok {
		found := finding{cause: BackendEnded, backend: flow.Backend, lag: max(0, q.Sent-s.from)}
		switch {
		case s.nodeGone:
			found.cause = NodeGone
		case flow.From < s.from && q.Sent-flow.From > underWay:
			found.cause = OldEntry
		}
		return found
	}
	removed, under := e.starved.removedUnder(q)
	switch {
	case under && removed.Backend == flow.Backend:
		return finding{cause: EntryRemoved, backend: removed.Backend}
	case q.Outcome != history.Timeout:
		return finding{cause: Refused, backend: flow.Backend}
	case under && flow.From > q.Sent:
		return finding{cause: EntryRemoved, backend: removed.Backend}
	}
	if s := e.starved.provenAt(b, q); s != nil {
		return finding{cause: NoProcessor, backend: flow.Backend, waited: s.to - s.from}
	}
	if lag, is := e.cuts.off(b, q.Sent); is {
		return finding{cause: CutOff, backend: flow.Backend, lag: lag}
	}
	switch {
	case flow.Replied && q.Mode == history.Fresh:
		return finding{cause: AnsweredLate, backend: flow.Backend}
	case under: // and the next query, not this one, began the flow that follows
		return finding{cause: EntryRemoved, backend: removed.Backend}
	case e.busy(q):
		return finding{cause: ProberBusy}
	}
	if waited := b.behind(q.Sent); waited > 0 {
		return finding{cause: BackendBehind, backend: flow.Backend, waited: waited}
	}
	return finding{cause: Unexplained, backend: flow.Backend}
}

// withoutEntry is the cause of a loss of which no entry is on record.
func (e evidence) withoutEntry(q history.Query) Cause {
	switch i := e.inserts.at(q); {
	case i != nil && i.proven():
		return InsertFailed
	case e.busy(q):
		return ProberBusy
	case e.target.Observed && !e.starved.tracked[q.Node]:
		return Untracked
	}
	return Unexplained
}

// busy reports whether the prober's machine was too busy: the control was lost or late
// as well, or the query itself left late.
func (e evidence) busy(q history.Query) bool {
	return q.Sent-q.Intended > lateQuery || e.lags.near(e.target.machine(q.Node), q.Intended)
}
