package loss

import (
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

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
