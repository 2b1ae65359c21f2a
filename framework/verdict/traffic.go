package verdict

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// traffic is where the prober's queries went, and what is known of the pods
// that they went to.
type traffic struct {
	judge
	flows    map[source][]history.Flow // in order of time
	backends map[string]*backend       // by IP
	late     time.Duration             // how late a flow's times may be
	lags     lags                      // when the control was lost or late
	inserts  map[string][]inserts
	tracked  map[string]bool // nodes whose flows are on record
	cuts     []period        // when an add-on may have cut pods off
	ready    []readiness     // how many endpoints the service had, in order of time
}

// source is where queries come from.
type source struct {
	node string
	port int
}

// backend is a pod that queries were sent to.
type backend struct {
	pod    *story.Pod    // nil if the history shows none with its IP
	chosen time.Duration // when the rules last chose it for a new flow
	// unchosen is, by the prober's node, when so many new flows had gone to other pods since
	// then that the rules there cannot choose it any more.
	unchosen map[string]time.Duration
	answered []time.Duration // when the queries left that it answered, ascending
	leaves   time.Duration   // when its endpoint was first seen not to be ready; 0 if never
	silences []silence
	waits    []wait
}

// wait is the time in which a query waited for its answer, longer than a pod that
// has nothing else to do takes.
type wait struct{ from, to time.Duration }

// longWait is some hundred times what CoreDNS takes for a name of the cluster.
const longWait = 50 * time.Millisecond

// behind is the longest that a query which waited at the pod when another was
// sent there had to wait, 0 if none did.
func (b *backend) behind(sent time.Duration) (longest time.Duration) {
	for _, w := range b.waits {
		if w.from <= sent && sent <= w.to {
			longest = max(longest, w.to-w.from)
		}
	}
	return longest
}

// silence is a time in which a pod answers nothing since it, or its container,
// has ended: from its last answer, which is more precise than what the API says
// of an exit, to its next.
type silence struct {
	from, to time.Duration
	nodeGone bool
}

type readiness struct {
	at    time.Duration
	ready int
}

// name is the pod's namespace/name; empty if it is not known.
func (b *backend) name() string {
	if b == nil || b.pod == nil {
		return ""
	}
	return b.pod.Name()
}

// gone reports whether the pod ended for good.
func (b *backend) gone() bool {
	return b != nil && slices.ContainsFunc(b.silences, func(s silence) bool { return s.to == math.MaxInt64 })
}

// silent is the silence in which a query was sent, or which began while it was
// under way.
func (b *backend) silent(sent time.Duration) (silence, bool) {
	for _, s := range b.silences {
		if sent > s.from-underWay && sent < s.to {
			return s, true
		}
	}
	return silence{}, false
}

func newTraffic(j judge) traffic {
	t := traffic{judge: j, flows: map[source][]history.Flow{}, backends: map[string]*backend{}, inserts: j.insertFailures(), cuts: j.cutsOff(), tracked: map[string]bool{}}
	for _, f := range j.History.Flows {
		if f.Target != j.target.flows {
			continue
		}
		from := source{f.Node, f.Port}
		t.flows[from] = append(t.flows[from], f)
		if t.backends[f.Backend] == nil {
			t.backends[f.Backend] = &backend{pod: j.PodAt(f.Backend)}
		}
	}
	for _, flows := range t.flows {
		slices.SortStableFunc(flows, func(a, b history.Flow) int { return cmp.Compare(a.From, b.From) })
	}
	for _, e := range j.AllOf(history.FlowsRecorded) {
		t.tracked[e.Node] = true
	}
	if e, ok := j.FirstOf(history.FlowsRecorded); ok {
		t.late = 2 * e.Numbers.Duration(history.Resolution)
	}
	lost := map[history.Flow]time.Duration{} // when the last query left that a flow lost
	for _, q := range j.History.Queries {
		if q.Target != j.target.service || !q.Outcome.Lost() {
			continue
		}
		if f, ok := t.flow(q); ok {
			lost[f] = max(lost[f], q.Sent)
		} else if i := t.insertsAt(q); i != nil {
			i.without++
		}
	}
	begun := map[string][]newFlow{} // by the prober's node
	for _, q := range j.History.Queries {
		f, ok := t.flow(q)
		if !ok || q.Target != j.target.service {
			continue
		}
		b := t.backends[f.Backend]
		if f.From >= q.Sent-t.late {
			b.chosen = max(b.chosen, q.Sent) // its flow is new
			begun[q.Node] = append(begun[q.Node], newFlow{q.Sent, b})
		}
		// After a loss, the answers just before an entry's removal is reported belong
		// to the next entry: a busy recorder hears late of both.
		next := f.Removed && lost[f] >= f.To-recorderStall && q.Sent > lost[f]
		if q.Outcome == history.Answered && !next {
			b.answered = append(b.answered, q.Sent)
			if q.Done-q.Sent > longWait+t.target.delay {
				b.waits = append(b.waits, wait{q.Sent, q.Done})
			}
		}
	}
	for _, e := range j.endpoints(history.EndpointTerminating, history.EndpointNotReady, history.EndpointGone) {
		if b := t.backends[e.IP]; b != nil && b.leaves == 0 {
			b.leaves = e.At
		}
	}
	for node, flows := range begun {
		t.findUnchosen(node, flows)
	}
	for _, b := range t.backends {
		slices.Sort(b.answered)
		b.silences = j.silences(b)
	}
	t.ready = j.readiness()
	t.countLost()
	t.lags = j.lags(controlLag)
	return t
}

// newFlow is a query that began a flow, and to which pod.
type newFlow struct {
	sent time.Duration
	to   *backend
}

// othersEach is how many new flows have to go to other pods, for each pod there is, before one
// is certainly not chosen any more. The rules choose each of n pods for one of n flows: that ten
// times as many miss one of them has a probability of 1 in 20,000 at most, (1-1/n)^10n.
const othersEach = 10

// findUnchosen finds when the rules on a node had stopped choosing each pod.
func (t traffic) findUnchosen(node string, flows []newFlow) {
	slices.SortStableFunc(flows, func(a, b newFlow) int { return cmp.Compare(a.sent, b.sent) })
	since := map[*backend]int{} // the number of the last flow to it
	for i, f := range flows {
		since[f.to] = i
	}
	for _, b := range t.backends {
		last, chosen := since[b]
		if !chosen {
			last = -1
		}
		if enough := last + othersEach*len(t.backends); enough < len(flows) {
			if b.unchosen == nil {
				b.unchosen = map[string]time.Duration{}
			}
			b.unchosen[node] = flows[enough].sent
		}
	}
}

// removedUnder is the entry of the query's port that was removed while the query
// was under way: no longer than an answer takes, or a query waited at that pod. A
// lost query is on record as under way for its whole timeout.
func (t traffic) removedUnder(q history.Query) (history.Flow, bool) {
	flows := t.flows[source{q.Node, q.Port}]
	i := slices.IndexFunc(flows, func(f history.Flow) bool {
		return f.Removed && f.From <= q.Sent+t.late && q.Sent <= f.To && f.To <= q.Done &&
			(f.To-q.Sent <= underWay+t.target.delay+t.late || t.backends[f.Backend].behind(q.Sent) > 0)
	})
	if i < 0 {
		return history.Flow{}, false
	}
	return flows[i], true
}

// removedWhileServing reports whether kube-proxy removed a query's entry though its pod was
// in the Service. No change of the endpoints requires that, however busy this machine is
// (kubernetes#129982).
func (t traffic) removedWhileServing(q history.Query) bool {
	f, under := t.removedUnder(q)
	b := t.backends[f.Backend]
	return under && b != nil && (b.leaves == 0 || f.To < b.leaves-seenLate)
}

// removedFirst reports whether a query went by an entry that was removed while it was under
// way: its flow leads to the same pod, or began later.
func (t traffic) removedFirst(q history.Query, f history.Flow) bool {
	removed, under := t.removedUnder(q)
	return under && (removed.Backend == f.Backend || f.From > q.Sent)
}

// flow is the entry by which a query went: the last of its port's that began
// before it or with it, and if there was none any more, the one that began
// because of it, of which a busy recorder heard late. A query that was rejected
// has none.
func (t traffic) flow(q history.Query) (history.Flow, bool) {
	flows := t.flows[source{q.Node, q.Port}]
	i, _ := slices.BinarySearchFunc(flows, q.Sent+t.late, func(f history.Flow, at time.Duration) int { return cmp.Compare(f.From, at) })
	if i > 0 && (flows[i-1].To == 0 || flows[i-1].To >= q.Sent) && !t.expired(flows[i-1:], q) {
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
func (t traffic) expired(flows []history.Flow, q history.Query) bool {
	if q.Mode != history.Fresh || len(flows) < 2 || q.Sent-flows[0].From <= entryLife {
		return false
	}
	return flows[1].From <= q.Sent+recorderStall && flows[1].From-flows[0].To <= t.late
}

// entryLife is for how long the kernel keeps an unused entry of UDP at least
// (nf_conntrack_udp_timeout).
const entryLife = 30 * time.Second

// recorderStall is how late a recorder without processor time may hear of a flow.
// No port is used twice in that time except the fixed ones, which have a flow.
const recorderStall = time.Second

// silences finds when the backend fell silent: for good if its pod ended or its
// node was taken, and until its next answer if its container was started again.
func (j judge) silences(b *backend) []silence {
	if b.pod == nil {
		return nil
	}
	var out []silence
	node := ""
	var stopped *history.Event
	for _, e := range b.pod.Events {
		node = cmp.Or(e.Node, node)
		switch e.Kind {
		case history.PodExited, history.PodDeleted:
			if stopped == nil {
				stopped = &e
			}
		case history.PodRestarted:
			stopped = nil
			if s, ok := b.gap(e.At); ok {
				out = append(out, s)
			}
		}
	}
	last, answered := b.last()
	taken, gone := j.Reclaimed(node)
	// Killing a node's container takes a moment.
	killed := taken.At + taken.Numbers.Duration(history.Took)
	if gone && (stopped == nil || taken.At < stopped.At) && (!answered || last <= killed+underWay) {
		return append(out, silence{from: cmp.Or(last, taken.At), to: math.MaxInt64, nodeGone: true})
	}
	if stopped == nil {
		return out
	}
	// The API reports an exit late, with a time in whole seconds.
	from := cmp.Or(last, stopped.At)
	if stopped.Said != nil {
		from = max(from, *stopped.Said)
	}
	return append(out, silence{from: from, to: math.MaxInt64})
}

// last is when the last query left that the backend answered.
func (b *backend) last() (time.Duration, bool) {
	if len(b.answered) == 0 {
		return 0, false
	}
	return b.answered[len(b.answered)-1], true
}

// Around the time at which a restart was seen, the container may have ended up to
// so much before, and answered again up to so much after it.
const (
	restartBefore = 5 * time.Second
	restartAfter  = 2 * time.Second
)

// gap is the longest time without an answer around a restart.
func (b *backend) gap(seen time.Duration) (longest silence, ok bool) {
	for i, from := range b.answered[:max(0, len(b.answered)-1)] {
		to := b.answered[i+1]
		if from >= seen-restartBefore && from <= seen+restartAfter && to-from > longest.to-longest.from {
			longest = silence{from: from, to: to}
		}
	}
	return longest, longest.to > longest.from
}

// readiness follows how many endpoints kube-proxy could use: the ready ones, and
// if there is none, those that end but still serve (KEP-1669).
func (j judge) readiness() []readiness {
	ready := map[string]bool{}
	var out []readiness
	for _, e := range j.Events {
		if !j.ofTarget(e) {
			continue
		}
		switch e.Kind {
		case history.EndpointReady:
			ready[e.IP] = true
		case history.EndpointTerminating:
			ready[e.IP] = e.Reason == "serving"
		case history.EndpointNotReady:
			ready[e.IP] = strings.HasPrefix(e.Reason, "serving=true terminating=true")
		case history.EndpointGone:
			delete(ready, e.IP)
		default:
			continue
		}
		n := 0
		for _, is := range ready {
			if is {
				n++
			}
		}
		out = append(out, readiness{e.At, n})
	}
	return out
}

// withoutEndpoint reports whether the service had no endpoint then or shortly before,
// since kube-proxy follows late.
func (t traffic) withoutEndpoint(at time.Duration) bool {
	now := 0
	for _, r := range t.ready {
		if r.at > at {
			break
		}
		now = r.ready
		if now == 0 && r.at >= at-rulesLag {
			return true
		}
	}
	return len(t.ready) > 0 && now == 0
}

// busy reports whether the prober's machine was too busy: the control was lost or late
// as well, or the query itself left late.
func (t traffic) busy(q history.Query) bool {
	return q.Sent-q.Intended > lateQuery || t.lags.near(t.target.machine(q.Node), q.Intended)
}
