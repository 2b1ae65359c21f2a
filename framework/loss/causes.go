package loss

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Cause is why a query was lost. Each lost query has one.
type Cause string

// The closed list of causes.
const (
	// NodeGone: it was sent to a pod whose node had been taken.
	NodeGone Cause = "node-gone"
	// OldEntry: a connection tracking entry from before still sent this port to a pod that had
	// ended or was just ending; kube-proxy's rules were not consulted.
	OldEntry Cause = "old-entry"
	// BackendEnded: it was sent to a pod that had ended, or was with it when it did,
	// because the rules chose that pod.
	BackendEnded Cause = "backend-ended"
	// EntryRemoved: kube-proxy took the entry away while the answer was under way,
	// so that nothing translated it back.
	EntryRemoved Cause = "entry-removed"
	// InsertFailed: the kernel dropped it, because two packets needed the same
	// connection tracking entry at once (kubernetes#56903).
	InsertFailed Cause = "insert-failed"
	// NoEndpoint: the rules had no pod to choose from.
	NoEndpoint Cause = "no-endpoint"
	// Refused: a pod that was there refused it, by DNS, or by ICMP since its port was closed. The
	// kernel reports a closed port only once a second.
	Refused Cause = "refused"
	// AnsweredLate: an answer came back, after the prober's timeout.
	AnsweredLate Cause = "answered-late"
	// CutOff: it was sent to a pod with security groups of its own, whose traffic the
	// upgraded add-on vpc-cni dropped.
	CutOff Cause = "cut-off"
	// BackendBehind: it was sent to a pod in which an earlier query still waited for
	// its answer: what the pod's receive buffer cannot hold, the kernel drops (udp(7)).
	BackendBehind Cause = "backend-behind"
	// NoProcessor: it was sent to a pod that stayed, and that had no processor: the kernel
	// dropped it at the pod's full socket, or it was answered too late.
	NoProcessor Cause = "no-processor"
	// ProberBusy: the control was lost or late at the same time, or the query left
	// late: the prober's machine, not CoreDNS.
	ProberBusy Cause = "prober"
	// Untracked: in a cluster that is not spotdrill's own, connection tracking was not
	// recorded, so it is not known where the query was sent.
	Untracked Cause = "untracked"
	// Unexplained: none of the above is on record.
	Unexplained Cause = "unexplained"
)

// Causes lists every cause, in the order in which reports list them.
func Causes() []Cause {
	return []Cause{NodeGone, OldEntry, BackendEnded, EntryRemoved, InsertFailed, NoEndpoint, Refused, AnsweredLate, CutOff, BackendBehind, NoProcessor, ProberBusy, Untracked, Unexplained}
}

// Loss is what queries were lost to one cause at one pod.
type Loss struct {
	Cause Cause `yaml:"cause"`
	// Fresh and Fixed count the lost queries by the prober's mode.
	Fresh int `yaml:"fresh"`
	Fixed int `yaml:"fixed"`
	// Backend is the IP of the pod that the queries were sent to, Pod its
	// namespace/name; empty if the cause is not one pod's.
	Backend string `yaml:"backend,omitempty"`
	Pod     string `yaml:"pod,omitempty"`
	// From and To are when the first and the last of them was to leave.
	From strict.Duration `yaml:"from"`
	To   strict.Duration `yaml:"to"`
	// Lag is for how long after its last answer queries were sent to a pod that had
	// ended or was cut off; 0 for other causes.
	Lag strict.Duration `yaml:"lag,omitempty"`
	// Waited is the longest that a query waited for its answer from a pod that was
	// behind, while one was lost, or that a pod waited for a processor; 0 for other causes.
	Waited strict.Duration `yaml:"waited,omitempty"`
	// RulesLeft is when the last query left for which kube-proxy's rules on the
	// prober's node chose a pod that ended for good; its resolution is some intervals
	// of the fresh queries. 0 if they chose it for none.
	RulesLeft strict.Duration `yaml:"rulesLeft,omitempty"`
}

// Lost is how many queries it was.
func (l Loss) Lost() int { return l.Fresh + l.Fixed }

// Why describes what became of the queries: "sent to 10.244.1.5 up to 1.800s after
// its last answer, by conntrack entries older than that (the rules last chose it at
// +6.164s)".
func (l Loss) Why() string {
	sent := fmt.Sprintf("sent to %s up to %s after its last answer, ", l.Backend, history.Seconds(l.Lag.D()))
	switch l.Cause {
	case NodeGone:
		return sent + "its node being gone"
	case OldEntry:
		if l.RulesLeft > 0 {
			return sent + fmt.Sprintf("by conntrack entries older than that (the rules last chose it at +%s)", history.Seconds(l.RulesLeft.D()))
		}
		return sent + "by conntrack entries older than that"
	case BackendEnded:
		return sent + "kube-proxy's rules still selected it"
	case EntryRemoved:
		return fmt.Sprintf("under way at %s when kube-proxy removed their conntrack entries", l.Backend)
	case InsertFailed:
		return "dropped by the kernel, which could not insert their conntrack entries"
	case NoEndpoint:
		return "asked while the service had no endpoint"
	case Refused:
		return "refused by " + cmp.Or(l.Backend, "the service")
	case AnsweredLate:
		return fmt.Sprintf("answered by %s after the prober's timeout", l.Backend)
	case CutOff:
		return sent + "cut off by the upgrade of the add-on vpc-cni"
	case BackendBehind:
		return fmt.Sprintf("dropped at %s, which was behind: earlier queries waited there for up to %s", l.Backend, history.Seconds(l.Waited.D()))
	case NoProcessor:
		return fmt.Sprintf("lost at %s, which had no processor for %s: this machine was busy", cmp.Or(l.Pod, l.Backend), history.Seconds(l.Waited.D()))
	case ProberBusy:
		return "lost or late at the control as well: this machine was too busy"
	case Untracked:
		return "lost on a path that is not on record: connection tracking was not recorded"
	}
	if l.Backend != "" {
		return fmt.Sprintf("sent to %s, which answered others: unexplained", l.Backend)
	}
	return "unexplained"
}

// Explain describes all losses in one line: "81 lost: 73 sent to …; 8 refused by …".
func Explain(losses []Loss) string {
	all := 0
	for _, l := range losses {
		all += l.Lost()
	}
	clauses := make([]string, len(losses))
	for i, l := range losses {
		clauses[i] = fmt.Sprintf("%d %s", l.Lost(), l.Why())
	}
	return fmt.Sprintf("%d lost: %s", all, strings.Join(clauses, "; "))
}

// lossesOf counts a measurement's lost queries by cause and pod: most first.
func lossesOf(m Measurement, bs backends, causes map[history.Query]finding) []Loss {
	byCause := map[Loss]*Loss{}
	for _, s := range m.Streams("all") {
		for _, q := range s.Queries {
			if !q.Outcome.Lost() {
				continue
			}
			found := causes[q]
			key := Loss{Cause: found.cause, Backend: found.backend}
			l := byCause[key]
			if l == nil {
				b := bs.byIP[found.backend]
				l = &Loss{Cause: found.cause, Backend: found.backend, Pod: b.name(), From: whole(q.Intended)}
				if b.gone() {
					l.RulesLeft = whole(b.chosen)
				}
				byCause[key] = l
			}
			if q.Mode.PortEach() {
				l.Fresh++
			} else {
				l.Fixed++
			}
			l.From, l.To = min(l.From, whole(q.Intended)), max(l.To, whole(q.Intended))
			l.Lag, l.Waited = max(l.Lag, whole(found.lag)), max(l.Waited, whole(found.waited))
		}
	}
	var out []Loss
	for _, l := range byCause {
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b Loss) int {
		return cmp.Or(cmp.Compare(b.Lost(), a.Lost()), cmp.Compare(slices.Index(Causes(), a.Cause), slices.Index(Causes(), b.Cause)), cmp.Compare(a.Backend, b.Backend))
	})
	return out
}

// whole is a duration in milliseconds: there is one fresh query in each.
func whole(d time.Duration) strict.Duration { return strict.Duration(d.Round(time.Millisecond)) }

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
	case q.Outcome != history.Timeout || b.refuses(q.Sent):
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
