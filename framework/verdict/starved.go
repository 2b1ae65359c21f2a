package verdict

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
	// starvedRan is for which share of such a wait the pod's threads together may have run:
	// a server that is overloaded runs all the time. What it ran is counted from the sample
	// before the wait to the one after it, and so for up to two resolutions longer than the wait.
	starvedRan = 0.25
	// starvedGap is the longest time between two waits of one starvation. A pod that runs for
	// that long in between does not empty a full socket for long.
	starvedGap = 100 * time.Millisecond
	// starvedReach is how far from the recorded wait a query may have been lost by it: the
	// time to read what is in the socket. A wait may also have ended as much earlier as its
	// resolution says.
	starvedReach = 30 * time.Millisecond
)

// starvation is a time in which a pod had work to do and no processor.
type starvation struct {
	pod      string // namespace/name
	from, to time.Duration
	// early is how much earlier it may have begun and ended.
	early time.Duration
	// doubtful reports whether it may be the pod's own CPU limit that held it back.
	doubtful bool
	// waited and ran are for how long its threads waited, and ran meanwhile.
	waited, ran float64
	// dropped is how many datagrams the kernel dropped at the pod's sockets meanwhile.
	dropped int
	// lost is how many of the prober's queries were sent to the pod meanwhile, and timed
	// out before the pod had a processor again.
	lost int
}

// real reports whether the pod, as far as recorded, waited for long enough and did not run meanwhile.
func (s starvation) real() bool {
	return s.waited >= starvedFrom.Seconds() && s.ran <= starvedRan*(s.waited+s.early.Seconds())
}

// with is the starvation with a wait that follows it, as one.
func (s starvation) with(next starvation) starvation {
	s.from, s.to, s.early = min(s.from, next.from), max(s.to, next.to), max(s.early, next.early)
	s.waited, s.ran, s.doubtful = s.waited+next.waited, s.ran+next.ran, s.doubtful || next.doubtful
	return s
}

// continues reports whether a wait and what was before it are one starvation. They are not if
// only one of them is real: a pod that has got a processor again runs all the time until it
// has caught up, and still waits then and again.
func (s starvation) continues(before starvation) bool {
	if s.from-s.early > before.to+starvedGap {
		return false
	}
	return before.with(s).real() || !before.real() && !s.real()
}

func (s starvation) holds(sent time.Duration) bool {
	return sent >= s.from-s.early-starvedReach && sent <= s.to+starvedReach
}

// proven reports whether everything that was lost at the pod meanwhile was dropped by the
// kernel because nobody read the socket. If fewer datagrams were dropped than queries were
// lost, the pod or the network lost some of them.
func (s starvation) proven() bool { return !s.doubtful && s.lost <= s.dropped }

// starvations finds when the pods had no processor: by pod, in order of time. Waits of
// several threads, and waits that follow each other closely, are one.
func (j judge) starvations() map[string][]starvation {
	out := map[string][]starvation{}
	for _, e := range j.Events {
		waited, ran := e.Numbers[history.Waited], e.Numbers[history.Ran]
		throttled, known := e.Numbers[history.Throttled]
		// A pod that its own CPU limit held back is set wrong, and this machine is not busy.
		if e.Kind != history.ProcessorWaited || throttled > 0 {
			continue
		}
		next := starvation{
			pod: e.Pod, from: e.At - e.Numbers.Duration(history.Waited), to: e.At, early: e.Numbers.Duration(history.Resolution),
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
		out[pod] = slices.DeleteFunc(of, func(s starvation) bool { return !s.real() })
	}
	for _, e := range j.AllOf(history.DatagramsDropped) {
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

// starved finds the starvation of the pod in which a query was sent, or which its answer
// waited for.
func starved(of []starvation, sent time.Duration) *starvation {
	for i := range of {
		if of[i].holds(sent) {
			return &of[i]
		}
	}
	return nil
}

// waitedIn is for how long the pod had no processor between two times.
func waitedIn(of []starvation, from, to time.Duration) (sum time.Duration) {
	for _, s := range of {
		sum += max(0, min(s.to, to)-max(s.from, from))
	}
	return sum
}

// controlPod is the pod that is asked directly, "" if the history does not say which it is.
func (j judge) controlPod() string {
	e, _ := j.First(func(e history.Event) bool { return e.Kind == history.ControlChosen && e.Key == j.target.key })
	return e.Pod
}

// explainedBy reports whether a query to the control was lost or late because the pod had
// no processor: for at least half of the delay, if it was answered.
func explainedBy(of []starvation, q history.Query) bool {
	if q.Outcome == history.Timeout {
		s := starved(of, q.Sent)
		return s != nil && s.proven()
	}
	return !q.Outcome.Lost() && q.Sent-q.Intended <= lateQuery && 2*waitedIn(of, q.Sent, q.Done) >= q.Done-q.Sent
}

// countLost counts what was lost at each pod while it had no processor, the control's
// queries included: they share its socket.
func (t traffic) countLost() {
	control := t.controlPod()
	for _, q := range t.History.Queries {
		if q.Outcome != history.Timeout {
			continue
		}
		pod := ""
		switch q.Target {
		case t.target.control:
			pod = control
		case t.target.service:
			if f, ok := t.flow(q); ok && !t.removedFirst(q, f) {
				pod = t.backends[f.Backend].name()
			}
		}
		// An answer that nobody could give before the timeout needs no dropped datagram.
		if s := starved(t.starving()[pod], q.Sent); s != nil && s.to < q.Done {
			s.lost++
		}
	}
}

// starvedAt is the wait for a processor that a query was lost to, at a pod that stays.
func (t traffic) starvedAt(b *backend, q history.Query) *starvation {
	if b.leaving(q.Done) {
		return nil
	}
	if s := starved(t.starving()[b.name()], q.Sent); s != nil && s.proven() {
		return s
	}
	return nil
}

// leaving reports whether the pod had begun to terminate by then.
func (b *backend) leaving(by time.Duration) bool {
	if b == nil || b.pod == nil {
		return true
	}
	e, ok := b.pod.FirstOf(history.PodTerminating, history.PodEvicted, history.PodExited, history.PodDeleted)
	return ok && e.At <= by
}

// unproven finds the losses that may be this machine's or connection tracking's, which
// the record does not prove: a pod that had no processor was leaving, or lost more than its
// sockets dropped; or the kernel dropped more packets than queries are without an entry. Of
// what was lost in excess, as many queries are left: these are real, whichever they are. It
// is to be called once for each query.
func (t traffic) unproven() func(history.Query) bool {
	atPods, atInsert := map[*starvation]int{}, map[*inserts]int{}
	return func(q history.Query) bool {
		if q.Outcome != history.Timeout {
			return false
		}
		f, ok := t.flow(q)
		if !ok {
			i := t.insertsAt(q)
			if i == nil || atInsert[i] == i.failed {
				return false
			}
			atInsert[i]++
			return true
		}
		b := t.backends[f.Backend]
		if _, ended := b.silent(q.Sent); ended {
			return false
		}
		if t.removedFirst(q, f) {
			return false
		}
		s := starved(t.starving()[b.name()], q.Sent)
		if s == nil || !s.doubtful && atPods[s] == s.dropped {
			return false
		}
		atPods[s]++
		return true
	}
}

// lateRules reports whether a query was sent to a pod that had ended only because
// kube-proxy on the prober's node had no processor: with one, it would have changed the
// rules before the pod ended.
func (t traffic) lateRules(q history.Query) bool {
	f, ok := t.flow(q)
	if !ok {
		return false
	}
	b := t.backends[f.Backend]
	s, ok := b.silent(q.Sent)
	if !ok || s.nodeGone {
		return false
	}
	if b.leaves == 0 || b.leaves > q.Sent {
		return false
	}
	waited := time.Duration(0)
	for pod, of := range t.starving() {
		if strings.HasPrefix(pod, "kube-system/kube-proxy-") && t.nodeOf(pod) == cmp.Or(q.Node, f.Node) {
			waited += waitedIn(of, b.leaves, q.Sent)
		}
	}
	return waited > 0 && q.Sent-waited <= s.from
}

// handlerWaited says that the handler was late because it had no processor: it would have
// acted by until, if it had not waited between from and at. It is empty if not.
func (j judge) handlerWaited(from, at, until time.Duration) string {
	waited := time.Duration(0)
	for pod, of := range j.starving() {
		if slices.ContainsFunc(j.Pods, func(p story.Pod) bool { return p.Name() == pod && p.OfHandler(j.History.Meta.Handler) }) {
			waited = max(waited, waitedIn(of, from, at))
		}
	}
	if waited == 0 || at-waited > until {
		return ""
	}
	return fmt.Sprintf("this machine was busy: the handler had no processor for %s of that time", history.Seconds(waited))
}

// nodeOf is the node of a pod, by its namespace/name.
func (j judge) nodeOf(pod string) string {
	for _, p := range j.Pods {
		if p.Name() == pod {
			return p.Node()
		}
	}
	return ""
}
