package verdict

import (
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// lags are times at which a machine was too busy to say what became of a query, ascending, by
// machine, see target.machine.
type lags map[string][]time.Duration

// all are those of all machines, ascending.
func (l lags) all() []time.Duration {
	return slices.Sorted(func(yield func(time.Duration) bool) {
		for _, times := range l {
			for _, at := range times {
				if !yield(at) {
					return
				}
			}
		}
	})
}

// near reports whether a machine was too busy close to a time.
func (l lags) near(machine string, at time.Duration) bool {
	times := l[machine]
	i, _ := slices.BinarySearch(times, at-lagReach)
	return i < len(times) && times[i] <= at+lagReach
}

// lags are the times at which this machine was too busy to say what became of a query: at
// which a query to the control, or to the prober's own echo, was intended that was lost or
// later than that. Those of the control for which the record shows that its own
// pod had no processor are left out: they say nothing of other pods.
func (j judge) lags(later time.Duration) lags {
	of := j.starving()[j.controlPod()]
	return j.lagsExcept(later, func(q history.Query) bool { return q.Target == j.target.control && explainedBy(of, q) })
}

// lagsExcept are the intended times of queries to the control, or to the prober's own echo,
// that were lost or later than that, except the explained ones. What CoreDNS was set to take is
// not late.
func (j judge) lagsExcept(later time.Duration, explained func(history.Query) bool) lags {
	out := lags{}
	for _, q := range slices.Concat(j.measured.Control.queries, j.measured.Echo.queries) {
		took := q.Done - q.Intended
		if q.Target == j.target.control {
			took -= j.target.delay
		}
		if (q.Outcome.Lost() || took > later) && !explained(q) {
			machine := j.target.machine(q.Node)
			out[machine] = append(out[machine], q.Intended)
		}
	}
	for _, times := range out {
		slices.Sort(times)
	}
	return out
}
