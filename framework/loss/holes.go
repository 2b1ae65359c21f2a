package loss

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
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

// newMoments are the drill's own: what changes about CoreDNS and the endpoints of its service
// once the fault has begun. For a pod that ended, the moments are its last answer and the last
// new flow to it. While it answers nothing is lost by its end, and what is no longer sent there
// cannot be lost there.
func newMoments(st *story.Story, t Target, bs backends) []moment {
	started, ok := st.Started()
	if !ok {
		return nil
	}
	var out []moment
	ready, serving := map[string]bool{}, map[string]bool{} // addresses, and their pods
	for _, e := range st.Events {
		if !t.Concerns(e) {
			continue
		}
		switch e.Kind {
		case history.EndpointReady:
			ready[e.IP], serving[e.Pod] = true, true
			continue
		case history.EndpointTerminating, history.EndpointNotReady, history.EndpointGone:
			// One that is not ready yet serves nobody.
			if !ready[e.IP] || bs.show(e) {
				continue
			}
		case history.PodSignalled, history.PodExited:
			if !serving[e.Pod] || bs.show(e) {
				continue
			}
		case history.PodRestarted:
			if !serving[e.Pod] {
				continue
			}
		case history.Reclaimed:
			if !bs.servedOn(e) {
				continue
			}
		case history.DNSDisrupted:
			if t.Key != "" {
				continue
			}
		default:
			continue
		}
		if e.At >= started {
			out = append(out, moment{at: st.Happened(e), what: fmt.Sprintf("%s %s", e.Kind, cmp.Or(e.Pod, e.IP, e.Node))})
		}
	}
	for ip, b := range bs.byIP {
		if last, answered := b.last(); b.gone() && answered {
			out = append(out, moment{last, "the last answer of " + ip, b}, moment{b.chosen, "the last new flow to " + ip, b})
		}
	}
	slices.SortFunc(out, func(a, b moment) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.what, b.what)) })
	return out
}

// show reports whether the pod of an event ended for good, and its last answer is on record.
func (bs backends) show(e history.Event) bool {
	for ip, b := range bs.byIP {
		if ip == e.IP || b.name() != "" && b.name() == e.Pod {
			_, answered := b.last()
			return answered && b.gone()
		}
	}
	return false
}

// servedOn reports whether a CoreDNS pod still ran on a node when it was reclaimed.
func (bs backends) servedOn(reclaimed history.Event) bool {
	for _, b := range bs.byIP {
		if b.pod == nil || !b.pod.On(reclaimed.Node, reclaimed.At) {
			continue
		}
		if stopped, ok := b.pod.Stopped(); !ok || stopped.At >= reclaimed.At {
			return true
		}
	}
	return false
}

// Hole is a time in which the prober on a node sent nothing, near a moment of the drill.
type Hole struct {
	node     string
	from, to time.Duration
	at       moment
}

func (h Hole) String() string {
	return fmt.Sprintf("nothing left for %s from +%s on, around %s at +%s", history.Seconds(h.to-h.from), history.Seconds(h.from), h.at.what, history.Seconds(h.at.at))
}

// harmless reports whether no query could have been lost in the hole by the end of the pod
// that it is near: the pod answered a query that left after it, or, if each query has a port
// of its own, kube-proxy's rules had stopped choosing the pod before it. What connection
// tracking itself loses may still be hidden.
func (h Hole) harmless(portEach bool) bool {
	if h.at.of == nil {
		return false
	}
	if last, answered := h.at.of.last(); answered && last >= h.to {
		return true
	}
	unchosen, known := h.at.of.unchosen[h.node]
	return portEach && known && unchosen <= h.from
}

// newHoles finds the times without a query around the drill's own moments, for each prober:
// one for each moment that it is near.
func newHoles(st *story.Story, t Target, moments []moment) []Hole {
	sent := map[string][]time.Duration{} // by the prober's node
	for _, q := range st.History.Queries {
		if q.Target == t.Service && q.Outcome != history.Unsent {
			sent[q.Node] = append(sent[q.Node], q.Sent)
		}
	}
	// A slow probe has holes of its own.
	most := momentHole
	if rate := t.Fresh + t.Fixed; rate > 0 {
		most = max(most, 4*time.Second*time.Duration(t.probers)/time.Duration(rate))
	}
	var out []Hole
	for node, times := range sent {
		slices.Sort(times)
		for _, m := range moments {
			i, _ := slices.BinarySearch(times, m.at-momentReach)
			for i = max(i, 1); i < len(times) && times[i-1] <= m.at+momentReach; i++ {
				if times[i]-times[i-1] > most {
					out = append(out, Hole{node, times[i-1], times[i], m})
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Hole) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.node, b.node)) })
	return out
}

// Hiding are the holes that may hide lost queries of the streams, each once. Without what
// connection tracking itself loses, fewer of them matter.
func (a *Attribution) Hiding(streams Streams, exceptConntrack bool) []Hole {
	portEach := true
	for mode := range streams {
		portEach = portEach && mode.PortEach()
	}
	var out []Hole
	for _, h := range a.holes {
		known := slices.ContainsFunc(out, func(o Hole) bool { return o.node == h.node && o.from == h.from })
		if !known && (!exceptConntrack || !h.harmless(portEach)) {
			out = append(out, h)
		}
	}
	return out
}

// Hidden is the most that holes may hide of the streams: for how long queries may have been
// lost, and how many of them. A verdict that it cannot change stands.
func (a *Attribution) Hidden(holes []Hole, streams Streams) (lasting time.Duration, lost int) {
	rate := 0
	for mode := range streams {
		rate += a.target.Rate(mode)
	}
	if a.target.Observed { // a hole is one prober's
		rate = (rate + a.target.probers - 1) / a.target.probers
	}
	for _, h := range holes {
		lasting += h.to - h.from
	}
	return lasting, int(math.Ceil(lasting.Seconds() * float64(rate)))
}

// Unbroken is the longest part of the streams' windows that no hole divides.
func (a *Attribution) Unbroken(streams Streams) (longest time.Duration) {
	for _, s := range streams {
		for _, w := range s.Windows {
			from := w.From
			for _, h := range a.holes {
				if h.to > from && h.from < w.To {
					longest, from = max(longest, h.from-from), h.to
				}
			}
			longest = max(longest, w.To-from)
		}
	}
	return longest
}
