package loss

import (
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Steady are the streams without the losses that may be this machine's: those during which
// the control or the echo was lost or late as well, those at a pod that had no processor, and
// those that kube-proxy would have prevented if it had had one. A pod that had ended answers
// nobody, however busy this machine is, and the entry of one that serves is never to be removed.
func (a *Attribution) Steady(streams Streams) Streams {
	all := newLags(a.target, a.measured, controlLag, func(history.Query) bool { return false })
	counters := counters{starved: a.starved, inserts: a.inserts, atPods: map[*Starvation]int{}, atInsert: map[*insertFailure]int{}}
	out := Streams{}
	for _, mode := range Modes() {
		s, ok := streams[mode]
		if !ok {
			continue
		}
		if out[mode] = s; s.Lost == 0 {
			continue
		}
		out[mode] = s.without(func(q history.Query) bool {
			if !q.Outcome.Lost() {
				return false
			}
			lags, cause := all, a.Cause(q)
			if cause == EntryRemoved && a.starved.removedWhileServing(q) {
				return false
			}
			if definite(cause) {
				lags = a.lags
			}
			switch {
			case lags.near(a.target.machine(q.Node), q.Intended), a.starved.lateRules(q):
				return true
			}
			return counters.explain(q)
		})
	}
	return out
}

// definite reports whether a cause is what the cluster did, whoever was busy.
func definite(c Cause) bool {
	return slices.Contains([]Cause{NodeGone, OldEntry, BackendEnded, NoEndpoint, Refused}, c)
}

// counters are how many losses the kernel's counters have explained so far, of those that may be
// this machine's or connection tracking's and that the record does not prove: a pod that had no
// processor was leaving, or lost more than its sockets dropped; or the kernel dropped more packets
// than queries are without an entry. Losses beyond what the counters explain are real. Only their
// number is known, not which queries they are.
type counters struct {
	starved  starved
	inserts  inserts
	atPods   map[*Starvation]int
	atInsert map[*insertFailure]int
}

// explain uses up one of what the counters explain, if they may explain the loss of a query.
func (c counters) explain(q history.Query) bool {
	if q.Outcome != history.Timeout {
		return false
	}
	f, ok := c.starved.of(q)
	if !ok {
		i := c.inserts.at(q)
		if i == nil || c.atInsert[i] == i.failed {
			return false
		}
		c.atInsert[i]++
		return true
	}
	b := c.starved.byIP[f.Backend]
	if _, ended := b.silent(q.Sent); ended || c.starved.removedFirst(q, f) {
		return false
	}
	s := c.starved.at(b.name(), q.Sent)
	if s == nil || !s.doubtful && c.atPods[s] == s.dropped {
		return false
	}
	c.atPods[s]++
	return true
}

// Undisturbed is how much of a window is left without the time around each query
// that the control lost, or answered by shownLag late: what shows an outage is
// what was lost while the control answered, even if slowly.
func (a *Attribution) Undisturbed(w history.Window) time.Duration {
	left, from := w.Length(), w.From
	for _, lag := range newLags(a.target, a.measured, shownLag, a.starved.explains).all() {
		to := min(lag+lagReach, w.To)
		from = max(from, lag-lagReach)
		if from < to {
			left -= to - from
			from = to
		}
	}
	return left
}

// Without are the service's streams without the queries that were lost to these causes.
func (a *Attribution) Without(causes ...Cause) *Measurement {
	drop := func(q history.Query) bool { return slices.Contains(causes, a.Cause(q)) }
	counted := a.measured
	for _, s := range []*Stream{&counted.Fresh, &counted.Fixed, &counted.Connect, &counted.Kept} {
		*s = s.without(drop)
	}
	return &counted
}

// ExplainedAtControl is how many of the control's queries were lost because its pod had no
// processor; known reports whether it had none at any time.
func (a *Attribution) ExplainedAtControl() (lost int, known bool) {
	if len(a.starved.byPod[a.starved.controlPod]) == 0 {
		return 0, false
	}
	for _, q := range a.measured.Control.Queries {
		if q.Outcome.Lost() && a.starved.explains(q) {
			lost++
		}
	}
	return lost, true
}

const (
	// controlLag is how late the control may answer while service queries are
	// lost: an idle pod answers within a few milliseconds. Whatever is in
	// flight when kube-proxy drops a pod's conntrack entries is lost, and a busy
	// machine has ten times as much in flight; such losses are not CoreDNS's.
	controlLag = 25 * time.Millisecond
	// shownLag is how late the control may answer while an outage is shown: half of
	// a resolver's timeout, so that queries lost meanwhile were not merely late too.
	shownLag = time.Second
	// lagReach is how far from a lost query such an answer counts.
	lagReach = history.Quiet / 2
)

// lags are times at which a machine was too busy for the record to show what became of a query,
// ascending, by machine, see Target.machine.
type lags map[string][]time.Duration

// newLags are the intended times of queries to the control, or to the prober's own echo,
// that were lost or later than that, except the explained ones. What CoreDNS was set to take is
// not late.
func newLags(t Target, m Measurement, later time.Duration, explained func(history.Query) bool) lags {
	out := lags{}
	for _, q := range slices.Concat(m.Control.Queries, m.Echo.Queries) {
		took := q.Done - q.Intended
		if q.Target == t.Control {
			took -= t.delay
		}
		if (q.Outcome.Lost() || took > later) && !explained(q) {
			machine := t.machine(q.Node)
			out[machine] = append(out[machine], q.Intended)
		}
	}
	for _, times := range out {
		slices.Sort(times)
	}
	return out
}

// all are those of all machines, ascending.
func (l lags) all() (times []time.Duration) {
	for _, of := range l {
		times = append(times, of...)
	}
	slices.Sort(times)
	return times
}

// near reports whether a machine was too busy close to a time.
func (l lags) near(machine string, at time.Duration) bool {
	times := l[machine]
	i, _ := slices.BinarySearch(times, at-lagReach)
	return i < len(times) && times[i] <= at+lagReach
}
