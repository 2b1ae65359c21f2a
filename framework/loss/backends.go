package loss

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

const (
	// longWait is some hundred times what CoreDNS takes for a name of the cluster.
	longWait = 50 * time.Millisecond
	// underWay is how long a query may have been with a pod that answered later
	// ones before it ended, or before kube-proxy removed its entry.
	underWay = 100 * time.Millisecond
	// refusalEach is how often the kernel of a pod reports one machine that a port is closed, when it is
	// sent more (icmp_ratelimit of icmp(7)), with what a recorder may be late.
	refusalEach = time.Second + underWay
	// Around the time at which a restart was seen, the container may have ended up to
	// so much before, and answered again up to so much after it.
	restartBefore = 5 * time.Second
	restartAfter  = 2 * time.Second
	// othersEach is how many new flows have to go to other pods, for each pod there is, before one
	// is certainly not chosen any more. The rules choose each of n pods for one of n flows: that ten
	// times as many miss one of them has a probability of 1 in 20,000 at most, (1-1/n)^10n.
	othersEach = 10
)

// backends are the pods that the flows lead to.
type backends struct {
	flows
	delay time.Duration // how long the pods were set to take for an answer
	byIP  map[string]*backend
}

// backend is a pod that queries were sent to.
type backend struct {
	pod    *story.Pod    // nil if the history shows none with its IP
	chosen time.Duration // when the rules last chose it for a new flow
	// unchosen is, by the prober's node, when so many new flows had gone to other pods since
	// then that the rules there cannot choose it any more.
	unchosen map[string]time.Duration
	answered []time.Duration // when the queries left that it answered, ascending
	closed   []time.Duration // when the queries left for which its kernel reported that the port is closed, ascending
	leaves   time.Duration   // when its endpoint was first seen not to be ready; 0 if never
	silences []silence
	waits    []period // when a query waited for its answer longer than at a pod that has nothing else to do
}

// silence is a time in which a pod answers nothing since it, or its container,
// has ended: from its last answer, which is more precise than what the API reports
// of an exit, to its next.
type silence struct {
	from, to time.Duration
	nodeGone bool
}

// newFlow is a query that began a flow, and to which pod.
type newFlow struct {
	sent time.Duration
	to   *backend
}

func newBackends(st *story.Story, t Target, fs flows) backends {
	bs := backends{flows: fs, delay: t.delay, byIP: map[string]*backend{}}
	for _, f := range fs.all {
		if bs.byIP[f.Backend] == nil {
			bs.byIP[f.Backend] = &backend{pod: st.PodAt(f.Backend)}
		}
	}
	lost := map[history.Flow]time.Duration{} // when the last query left that a flow lost
	for _, q := range st.History.Queries {
		if q.Target != t.Service || !q.Outcome.Lost() {
			continue
		}
		if f, ok := fs.of(q); ok {
			lost[f] = max(lost[f], q.Sent)
		}
	}
	begun := map[string][]newFlow{} // by the prober's node
	for _, q := range st.History.Queries {
		if q.Target != t.Service {
			continue
		}
		f, ok := fs.of(q)
		if !ok {
			continue
		}
		b := bs.byIP[f.Backend]
		if f.From >= q.Sent-fs.late {
			b.chosen = max(b.chosen, q.Sent) // its flow is new
			begun[q.Node] = append(begun[q.Node], newFlow{q.Sent, b})
		}
		// After a loss, the answers just before an entry's removal is reported belong
		// to the next entry: a busy recorder hears late of both.
		next := f.Removed && lost[f] >= f.To-recorderStall && q.Sent > lost[f]
		if q.Outcome == history.ICMP {
			b.closed = append(b.closed, q.Sent)
		}
		if q.Outcome == history.Answered && !next {
			b.answered = append(b.answered, q.Sent)
			if q.Done-q.Sent > longWait+t.delay {
				b.waits = append(b.waits, period{q.Sent, q.Done})
			}
		}
	}
	for _, e := range t.Endpoints(st, history.EndpointTerminating, history.EndpointNotReady, history.EndpointGone) {
		if b := bs.byIP[e.IP]; b != nil && b.leaves == 0 {
			b.leaves = e.At
		}
	}
	for node, flows := range begun {
		for b, at := range unchosenSince(bs.byIP, flows) {
			if b.unchosen == nil {
				b.unchosen = map[string]time.Duration{}
			}
			b.unchosen[node] = at
		}
	}
	for _, b := range bs.byIP {
		slices.Sort(b.answered)
		slices.Sort(b.closed)
		b.silences = silencesOf(st, b)
	}
	return bs
}

// unchosenSince finds when the rules on a node had stopped choosing each pod, by the new flows
// that they made.
func unchosenSince(pods map[string]*backend, flows []newFlow) map[*backend]time.Duration {
	slices.SortStableFunc(flows, func(a, b newFlow) int { return cmp.Compare(a.sent, b.sent) })
	last := map[*backend]int{} // the number of the last flow to it
	for i, f := range flows {
		last[f.to] = i
	}
	out := map[*backend]time.Duration{}
	for _, b := range pods {
		since, chosen := last[b]
		if !chosen {
			since = -1
		}
		if enough := since + othersEach*len(pods); enough < len(flows) {
			out[b] = flows[enough].sent
		}
	}
	return out
}

// silencesOf finds when the backend fell silent: for good if its pod ended or its
// node was taken, and until its next answer if its container was started again.
func silencesOf(st *story.Story, b *backend) []silence {
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
	taken, gone := st.Reclaimed(node)
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

// refuses reports whether the pod's port was closed when a query was sent: its kernel reported that of another
// one at most refusalEach before or after, and none between these two was answered.
func (b *backend) refuses(sent time.Duration) bool {
	return slices.ContainsFunc(b.closed, func(at time.Duration) bool {
		from, to := min(at, sent), max(at, sent)
		i, _ := slices.BinarySearch(b.answered, from)
		return to-from <= refusalEach && (i == len(b.answered) || b.answered[i] > to)
	})
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

// leaving reports whether the pod had begun to terminate by then.
func (b *backend) leaving(by time.Duration) bool {
	if b == nil || b.pod == nil {
		return true
	}
	e, ok := b.pod.FirstOf(history.PodTerminating, history.PodEvicted, history.PodExited, history.PodDeleted)
	return ok && e.At <= by
}

// removedUnder is the entry of the query's port that was removed while the query
// was under way: no longer than an answer takes, or a query waited at that pod. A
// lost query is on record as under way for its whole timeout.
func (bs backends) removedUnder(q history.Query) (history.Flow, bool) {
	flows := bs.from[bs.source(q)]
	i := slices.IndexFunc(flows, func(f history.Flow) bool {
		return f.Removed && f.From <= q.Sent+bs.late && q.Sent <= f.To && f.To <= q.Done &&
			(f.To-q.Sent <= underWay+bs.delay+bs.late || bs.byIP[f.Backend].behind(q.Sent) > 0)
	})
	if i < 0 {
		return history.Flow{}, false
	}
	return flows[i], true
}

// removedWhileServing reports whether kube-proxy removed a query's entry though its pod was
// in the Service. No change of the endpoints requires that, however busy this machine is
// (kubernetes#129982).
func (bs backends) removedWhileServing(q history.Query) bool {
	f, under := bs.removedUnder(q)
	b := bs.byIP[f.Backend]
	return under && b != nil && (b.leaves == 0 || f.To < b.leaves-story.SeenLate)
}

// removedFirst reports whether a query went by an entry that was removed while it was under
// way: its flow leads to the same pod, or began later.
func (bs backends) removedFirst(q history.Query, f history.Flow) bool {
	removed, under := bs.removedUnder(q)
	return under && (removed.Backend == f.Backend || f.From > q.Sent)
}
