package verdict

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
	// OldEntry: it was sent to a pod that had ended, or was with it when it did, by
	// a connection tracking entry of its port from before; kube-proxy's rules were
	// not consulted.
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
	// Refused: a pod that was there refused it, by DNS or by ICMP.
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

// Why says what became of the queries: "sent to 10.244.1.5 up to 1.800s after
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
		return sent + "where the rules still led"
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

const (
	// underWay is how long a query may have been with a pod that answered later
	// ones before it ended, or before kube-proxy removed its entry.
	underWay = 100 * time.Millisecond
	// rulesLag is how much later than the API server kube-proxy may know of
	// endpoints; on a machine at rest it is below 100 ms.
	rulesLag = 5 * time.Second
)

// lossesByCause says what every lost query of the service was lost to: most first.
func (j judge) lossesByCause() []Loss {
	if j.measured == nil {
		return nil
	}
	t := j.traffic()
	byCause := map[Loss]*Loss{}
	for _, s := range j.measured.modes("all") {
		for _, q := range s.queries {
			if !q.Outcome.Lost() {
				continue
			}
			cause, backend, took := t.cause(q)
			key := Loss{Cause: cause, Backend: backend}
			l := byCause[key]
			if l == nil {
				b := t.backends[backend]
				l = &Loss{Cause: cause, Backend: backend, Pod: b.name(), From: whole(q.Intended)}
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
			if cause == BackendBehind || cause == NoProcessor {
				l.Waited = max(l.Waited, whole(took))
			} else {
				l.Lag = max(l.Lag, whole(took))
			}
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

const (
	// unexplainedShare is how many of the lost queries may be without a cause.
	unexplainedShare = 0.05
	// explainedFrom is how many must be lost for a share of them to say anything.
	explainedFrom = 100
)

var checkExplained = check{
	Kind: Kind{
		ID: "lossesExplained", Title: "losses explained",
		Requires: "The record explains why queries were lost: all but a small share of them have a cause.",
		Fix:      "open the drill's report: queries were lost, and neither connection tracking nor the life of pods says why; save the folder, it is worth an issue",
		Look:     Look{Lane: LaneDNS, Text: "the causes below the DNS answers, and flows.jsonl.gz of the drill"},
	},
	observes: true,
	always: func(j judge, v Verdict) (Verdict, bool) {
		if _, recorded := j.FirstOf(history.FlowsRecorded); !recorded {
			return v, false
		}
		return probed(judge.explained)(j, v)
	},
}

// explained checks whether the record says why queries were lost: if it does not,
// something unknown happened in the drill.
func (j judge) explained(v Verdict) Verdict {
	v = v.wants(fmt.Sprintf("at most %.0f %% of %d lost %s or more without a cause", unexplainedShare*100, explainedFrom, j.target.queries))
	lost, without := 0, 0
	for _, l := range j.losses() {
		lost += l.Lost()
		if l.Cause == Unexplained {
			without += l.Lost()
		}
	}
	v.Numbers = map[string]float64{"lost": float64(lost), "unexplained": float64(without)}
	got := fmt.Sprintf("%d of %d lost without a cause", without, lost)
	if lost >= explainedFrom && float64(without) > unexplainedShare*float64(lost) {
		return v.noise(got)
	}
	return v.pass(got)
}

// whole is a duration in milliseconds: there is one fresh query in each.
func whole(d time.Duration) strict.Duration { return strict.Duration(d.Round(time.Millisecond)) }

// lossCause is as traffic.cause; it does not read the flows for a query that was answered.
func (j judge) lossCause(q history.Query) Cause {
	if !q.Outcome.Lost() {
		return ""
	}
	cause, _, _ := j.traffic().cause(q)
	return cause
}

// cause is what a lost query was lost to, at which backend, and how long after
// the backend's last answer it was sent, or for how long earlier ones waited there.
func (t traffic) cause(q history.Query) (cause Cause, backend string, took time.Duration) {
	flow, known := t.flow(q)
	// The entry of a used port may be one that a later query began. The kernel says
	// port unreachable some six times at once and then once a second (icmp(7)).
	nowhere := !known || flow.From > q.Sent+t.late
	if nowhere && (q.Outcome == history.ICMP || q.Outcome == history.Timeout) && t.withoutEndpoint(q.Sent) {
		return NoEndpoint, "", 0
	}
	if !known {
		switch i := t.insertsAt(q); {
		case i != nil && i.proven():
			return InsertFailed, "", 0
		case t.busy(q):
			return ProberBusy, "", 0
		case t.target.observed && !t.tracked[q.Node]:
			return Untracked, "", 0
		}
		return Unexplained, "", 0
	}
	b := t.backends[flow.Backend]
	if s, ok := b.silent(q.Sent); ok {
		lag := max(0, q.Sent-s.from)
		switch {
		case s.nodeGone:
			return NodeGone, flow.Backend, lag
		case flow.From < s.from && q.Sent-flow.From > underWay:
			return OldEntry, flow.Backend, lag
		}
		return BackendEnded, flow.Backend, lag
	}
	removed, under := t.removedUnder(q)
	switch {
	case under && removed.Backend == flow.Backend:
		return EntryRemoved, removed.Backend, 0
	case q.Outcome != history.Timeout:
		return Refused, flow.Backend, 0
	case under && flow.From > q.Sent:
		return EntryRemoved, removed.Backend, 0
	}
	if s := t.starvedAt(b, q); s != nil {
		return NoProcessor, flow.Backend, s.to - s.from
	}
	if lag, is := t.cutOff(b, q.Sent); is {
		return CutOff, flow.Backend, lag
	}
	switch {
	case flow.Replied && q.Mode == history.Fresh:
		return AnsweredLate, flow.Backend, 0
	case under: // and the next query, not this one, began the flow that follows
		return EntryRemoved, removed.Backend, 0
	case t.busy(q):
		return ProberBusy, "", 0
	}
	if waited := b.behind(q.Sent); waited > 0 {
		return BackendBehind, flow.Backend, waited
	}
	return Unexplained, flow.Backend, 0
}
