package loss

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

const (
	// starvedFrom is the shortest wait for a processor, in all, that can lose a query. At the rates
	// of drills a socket of Linux's default size holds more than 100 ms of queries; one that
	// was already half full, half of that.
	starvedFrom = 50 * time.Millisecond
	// StarvedRan is for which share of such a wait the pod's threads together may have run:
	// a server that is overloaded runs all the time. What it ran is counted from the sample
	// before the wait to the one after it, and so for up to two resolutions longer than the wait.
	StarvedRan = 0.25
	// starvedGap is the longest time between two waits of one starvation. A pod that runs for
	// that long in between does not empty a full socket for long.
	starvedGap = 100 * time.Millisecond
	// starvedReach is how far from the recorded wait a query may have been lost by it: the
	// time to read what is in the socket. A wait may also have ended as much earlier as its
	// resolution is.
	starvedReach = 30 * time.Millisecond
)

// Starvation is a time in which a pod had work to do and no processor.
type Starvation struct {
	from, to time.Duration
	// early is how much earlier it may have begun and ended.
	early time.Duration
	// doubtful reports whether it may be the pod's own CPU limit that held it back.
	doubtful bool
	// waited and ran are for how long its threads waited, and ran meanwhile.
	waited, ran float64
	// dropped is how many datagrams the kernel dropped at the pod's sockets meanwhile.
	dropped int
}

// real reports whether the pod, as far as recorded, waited for long enough and did not run meanwhile.
func (s Starvation) real() bool {
	return s.waited >= starvedFrom.Seconds() && s.ran <= StarvedRan*(s.waited+s.early.Seconds())
}

// with is the starvation with a wait that follows it, as one.
func (s Starvation) with(next Starvation) Starvation {
	s.from, s.to, s.early = min(s.from, next.from), max(s.to, next.to), max(s.early, next.early)
	s.waited, s.ran, s.doubtful = s.waited+next.waited, s.ran+next.ran, s.doubtful || next.doubtful
	return s
}

// continues reports whether a wait and what was before it are one starvation. They are not if
// only one of them is real: a pod that has got a processor again runs all the time until it
// has caught up, and still waits then and again.
func (s Starvation) continues(before Starvation) bool {
	if s.from-s.early > before.to+starvedGap {
		return false
	}
	return before.with(s).real() || !before.real() && !s.real()
}

func (s Starvation) holds(sent time.Duration) bool {
	return sent >= s.from-s.early-starvedReach && sent <= s.to+starvedReach
}

// Starvations finds when the pods had no processor: by pod, in order of time. Waits of
// several threads, and waits that follow each other closely, are one.
func Starvations(st *story.Story) map[string][]Starvation {
	out := map[string][]Starvation{}
	for _, e := range st.Events {
		waited, ran := e.Numbers[history.Waited], e.Numbers[history.Ran]
		throttled, known := e.Numbers[history.Throttled]
		// A pod that its own CPU limit held back is set wrong, and this machine is not busy.
		if e.Kind != history.ProcessorWaited || throttled > 0 {
			continue
		}
		next := Starvation{
			from: e.At - e.Numbers.Duration(history.Waited), to: e.At, early: e.Numbers.Duration(history.Resolution),
			doubtful: !known, waited: waited, ran: ran,
		}
		of := out[e.Pod]
		if last := len(of) - 1; last >= 0 && next.continues(of[last]) {
			of[last] = of[last].with(next)
		} else {
			out[e.Pod] = append(of, next)
		}
	}
	for pod, of := range out {
		out[pod] = slices.DeleteFunc(of, func(s Starvation) bool { return !s.real() })
	}
	for _, e := range st.AllOf(history.DatagramsDropped) {
		of := out[e.Pod]
		since := e.At - e.Numbers.Duration(history.Within)
		// Those of one count belong to the last wait that had begun: a count is taken when a
		// wait ends, and ten times a second.
		for i := len(of) - 1; i >= 0; i-- {
			if of[i].from <= e.At {
				if since <= of[i].to+starvedReach {
					of[i].dropped += int(e.Numbers[history.Dropped])
				}
				break
			}
		}
	}
	return out
}

// Waited is for how long a pod had no processor between two times.
func Waited(of []Starvation, from, to time.Duration) (sum time.Duration) {
	for _, s := range of {
		sum += max(0, min(s.to, to)-max(s.from, from))
	}
	return sum
}

// starved is when pods had no processor, and what was lost there meanwhile.
type starved struct {
	backends
	byPod map[string][]Starvation
	// lost is how many of the prober's queries were sent to the pod during each starvation, and
	// timed out before the pod had a processor again.
	lost map[*Starvation]int

	control     string            // the target of the queries to the control
	controlPod  string            // empty if the history does not show which it is
	kubeProxies map[string]string // their pods' nodes, by namespace/name
}

// newStarved counts what was lost at each pod while it had no processor, the control's
// queries included: they share its socket.
func newStarved(st *story.Story, t Target, bs backends) starved {
	chosen, _ := st.First(func(e history.Event) bool { return e.Kind == history.ControlChosen && e.Target() == t.Key })
	s := starved{
		backends: bs, byPod: Starvations(st), lost: map[*Starvation]int{},
		control: t.Control, controlPod: chosen.Pod, kubeProxies: map[string]string{},
	}
	for _, p := range slices.Backward(st.Pods) { // the first of a name counts
		if strings.HasPrefix(p.Name(), "kube-system/kube-proxy-") {
			s.kubeProxies[p.Name()] = p.Node()
		}
	}
	for _, q := range st.History.Queries {
		if q.Outcome != history.Timeout {
			continue
		}
		pod := ""
		switch q.Target {
		case t.Control:
			pod = s.controlPod
		case t.Service:
			if f, ok := bs.of(q); ok && !bs.removedFirst(q, f) {
				pod = bs.byIP[f.Backend].name()
			}
		}
		// An answer that nobody could give before the timeout needs no dropped datagram.
		if at := s.at(pod, q.Sent); at != nil && at.to < q.Done {
			s.lost[at]++
		}
	}
	return s
}

// at finds the starvation of the pod in which a query was sent, or which its answer
// waited for.
func (s starved) at(pod string, sent time.Duration) *Starvation {
	of := s.byPod[pod]
	for i := range of {
		if of[i].holds(sent) {
			return &of[i]
		}
	}
	return nil
}

// proven reports whether everything that was lost at the pod meanwhile was dropped by the
// kernel because nobody read the socket. If fewer datagrams were dropped than queries were
// lost, the pod or the network lost some of them.
func (s starved) proven(at *Starvation) bool {
	return at != nil && !at.doubtful && s.lost[at] <= at.dropped
}

// explains reports whether a query to the control was lost or late because the pod had
// no processor: for at least half of the delay, if it was answered.
func (s starved) explains(q history.Query) bool {
	switch {
	case q.Target != s.control:
		return false
	case q.Outcome == history.Timeout:
		return s.proven(s.at(s.controlPod, q.Sent))
	}
	return !q.Outcome.Lost() && q.Sent-q.Intended <= lateQuery && 2*Waited(s.byPod[s.controlPod], q.Sent, q.Done) >= q.Done-q.Sent
}

// provenAt is the wait for a processor that a query was lost to, at a pod that stays.
func (s starved) provenAt(b *backend, q history.Query) *Starvation {
	if b.leaving(q.Done) {
		return nil
	}
	if at := s.at(b.name(), q.Sent); s.proven(at) {
		return at
	}
	return nil
}

// lateRules reports whether a query was sent to a pod that had ended only because
// kube-proxy on the prober's node had no processor: with one, it would have changed the
// rules before the pod ended.
func (s starved) lateRules(q history.Query) bool {
	f, ok := s.of(q)
	if !ok {
		return false
	}
	b := s.byIP[f.Backend]
	ended, ok := b.silent(q.Sent)
	if !ok || ended.nodeGone || b.leaves == 0 || b.leaves > q.Sent {
		return false
	}
	waited := time.Duration(0)
	for pod, node := range s.kubeProxies {
		if node == cmp.Or(q.Node, f.Node) {
			waited += Waited(s.byPod[pod], b.leaves, q.Sent)
		}
	}
	return waited > 0 && q.Sent-waited <= ended.from
}

// HandlerWaited reports that the handler was late because it had no processor: it would have
// acted by until, if it had not waited between from and at. It is empty if not.
func HandlerWaited(st *story.Story, from, at, until time.Duration) string {
	waited := time.Duration(0)
	for pod, of := range Starvations(st) {
		if slices.ContainsFunc(st.Pods, func(p story.Pod) bool { return p.Name() == pod && p.OfHandler(st.History.Meta.Handler) }) {
			waited = max(waited, Waited(of, from, at))
		}
	}
	if waited == 0 || at-waited > until {
		return ""
	}
	return fmt.Sprintf("this machine was busy: the handler had no processor for %s of that time", history.Seconds(waited))
}
