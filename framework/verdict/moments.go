package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

const (
	// momentReach is how far around a moment of the drill the prober must have been on time:
	// watches report a change late, and kube-proxy follows later still.
	momentReach = 250 * time.Millisecond
	// momentHole is the longest time in which nothing may have left around such a moment. An
	// outage that is not seen is no longer than that: less than half of the shortest that was
	// ever seen (230 ms).
	momentHole = 100 * time.Millisecond
)

// moment is a time at which queries may be lost by what the drill does.
type moment struct {
	at   time.Duration
	what string
	// of is the pod whose traffic shows the moment, if it is such a one.
	of *backend
}

// moments are the drill's own: what changes about CoreDNS and the endpoints of its service
// once the fault has begun. Of a pod that ended, its traffic shows when that mattered: when it
// last answered, and when kube-proxy's rules last chose it. While it answers nothing is lost
// by its end, and what is no longer sent there cannot be lost there.
func (j judge) moments() []moment {
	started, ok := j.Started()
	if !ok {
		return nil
	}
	var out []moment
	ready, serving := map[string]bool{}, map[string]bool{} // addresses, and their pods
	for _, e := range j.Events {
		if !j.ofTarget(e) {
			continue
		}
		switch e.Kind {
		case history.EndpointReady:
			ready[e.IP], serving[e.Pod] = true, true
			continue
		case history.EndpointTerminating, history.EndpointNotReady, history.EndpointGone:
			// One that is not ready yet serves nobody.
			if !ready[e.IP] || j.shownByTraffic(e) {
				continue
			}
		case history.PodSignalled, history.PodExited:
			if !serving[e.Pod] || j.shownByTraffic(e) {
				continue
			}
		case history.PodRestarted:
			if !serving[e.Pod] {
				continue
			}
		case history.Reclaimed:
			if !j.served(e) {
				continue
			}
		case history.DNSDisrupted:
			if j.target.key != "" {
				continue
			}
		default:
			continue
		}
		if e.At >= started {
			out = append(out, moment{at: j.Happened(e), what: fmt.Sprintf("%s %s", e.Kind, cmp.Or(e.Pod, e.IP, e.Node))})
		}
	}
	for ip, b := range j.traffic().backends {
		if last, answered := b.last(); b.gone() && answered {
			out = append(out, moment{last, "the last answer of " + ip, b}, moment{b.chosen, "the last new flow to " + ip, b})
		}
	}
	slices.SortFunc(out, func(a, b moment) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.what, b.what)) })
	return out
}

// shownByTraffic reports whether the pod of an event ended for good, and its last answer is on
// record.
func (j judge) shownByTraffic(e history.Event) bool {
	for ip, b := range j.traffic().backends {
		if ip == e.IP || b.name() != "" && b.name() == e.Pod {
			_, answered := b.last()
			return answered && b.gone()
		}
	}
	return false
}

// served reports whether a CoreDNS pod still ran on a node when it was taken.
func (j judge) served(taken history.Event) bool {
	for _, b := range j.traffic().backends {
		if b.pod == nil || !b.pod.On(taken.Node, taken.At) {
			continue
		}
		if stopped, ok := b.pod.Stopped(); !ok || stopped.At >= taken.At {
			return true
		}
	}
	return false
}

// hole is a time in which the prober on a node sent nothing, near a moment of the drill.
type hole struct {
	node     string
	from, to time.Duration
	at       moment
}

func (h hole) String() string {
	return fmt.Sprintf("nothing left for %s from +%s on, around %s at +%s", history.Seconds(h.to-h.from), history.Seconds(h.from), h.at.what, history.Seconds(h.at.at))
}

// harmless reports whether no query could have been lost in the hole by the end of the pod
// that it is near: the pod answered a query that left after it, or, if each query has a port
// of its own, kube-proxy's rules had stopped choosing the pod before it. What connection
// tracking itself loses may still be hidden.
func (h hole) harmless(portEach bool) bool {
	if h.at.of == nil {
		return false
	}
	if last, answered := h.at.of.last(); answered && last >= h.to {
		return true
	}
	unchosen, known := h.at.of.unchosen[h.node]
	return portEach && known && unchosen <= h.from
}

// hiding are the holes that may hide lost queries of the streams, each once. Without what
// connection tracking itself loses, fewer of them matter.
func (j judge) hiding(streams map[history.Mode]Stream, exceptConntrack bool) []hole {
	portEach := true
	for mode := range streams {
		portEach = portEach && mode.PortEach()
	}
	var out []hole
	for _, h := range j.holes() {
		known := slices.ContainsFunc(out, func(o hole) bool { return o.node == h.node && o.from == h.from })
		if !known && (!exceptConntrack || !h.harmless(portEach)) {
			out = append(out, h)
		}
	}
	return out
}

// hidden is the most that holes may hide of the streams: for how long queries may have been
// lost, and how many of them. A verdict that it cannot change stands.
func (j judge) hidden(holes []hole, streams map[history.Mode]Stream) (lasting time.Duration, lost int) {
	rate := 0
	for mode := range streams {
		rate += j.target.rate(mode)
	}
	if j.target.observed { // a hole is one prober's
		rate = (rate + j.Scenario.Probe.Probers - 1) / j.Scenario.Probe.Probers
	}
	for _, h := range holes {
		lasting += h.to - h.from
	}
	return lasting, int(math.Ceil(lasting.Seconds() * float64(rate)))
}

// unbroken is the longest part of the streams' windows that no hole divides.
func (j judge) unbroken(streams map[history.Mode]Stream) (longest time.Duration) {
	for _, s := range streams {
		for _, w := range s.Windows {
			from := w.From
			for _, h := range j.holes() {
				if h.to > from && h.from < w.To {
					longest, from = max(longest, h.from-from), h.to
				}
			}
			longest = max(longest, w.To-from)
		}
	}
	return longest
}

// findHoles finds the times without a query around the drill's own moments, for each prober:
// one for each moment that it is near.
func (j judge) findHoles() []hole {
	sent := map[string][]time.Duration{} // by the prober's node
	for _, q := range j.History.Queries {
		if q.Target == j.target.service && q.Outcome != history.Unsent {
			sent[q.Node] = append(sent[q.Node], q.Sent)
		}
	}
	moments := j.moments()
	// A slow probe has holes of its own.
	most := momentHole
	if rate := j.target.fresh + j.target.fixed; rate > 0 {
		most = max(most, 4*time.Second*time.Duration(max(1, j.Scenario.Probe.Probers))/time.Duration(rate))
	}
	var out []hole
	for node, times := range sent {
		slices.Sort(times)
		for _, m := range moments {
			i, _ := slices.BinarySearch(times, m.at-momentReach)
			for i = max(i, 1); i < len(times) && times[i-1] <= m.at+momentReach; i++ {
				if times[i]-times[i-1] > most {
					out = append(out, hole{node, times[i-1], times[i], m})
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b hole) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.node, b.node)) })
	return out
}
