package story

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// ClockError is how far the times of the proxy and of the API server may be apart on one
// kernel: the audit log has whole microseconds, and each takes its time a moment after the
// request has arrived.
const ClockError = time.Millisecond

// Commit is a commit point that a handler reached, and between when.
type Commit struct {
	Shown            history.Event // what shows it, at the time that it had
	Earliest, Latest time.Duration
}

// DeletionArrived is when the request for a deletion reached the proxy, and how far the proxy's
// clock and the API server's may be apart. From then on the message may be gone; the
// answer may come much later.
func DeletionArrived(st *Story, deleted history.Event) (at, clocks time.Duration) {
	clocks = max(ClockError, deleted.Numbers.Duration(history.ClockBound))
	call, ok := st.First(func(e history.Event) bool {
		return e.Kind == history.SQSCall && e.At == deleted.At && strings.HasPrefix(e.Action, "DeleteMessage")
	})
	if !ok {
		return deleted.At, clocks
	}
	return Arrived(call), max(clocks, call.Numbers.Duration(history.ClockBound))
}

// DrainRecorded is when the drain of the node was recorded. Its first sign may have been
// seen late, but one of the handler's writes in the audit log, between the notice and
// the sign, made it: if all of them are on one side of a moment, so is the record. The
// deletion of an object that the handler has for the node is a record by itself.
func DrainRecorded(st *Story, node string, put history.Event) (Commit, bool) {
	sign, ok := st.DrainBegun(node)
	if !ok {
		return Commit{}, false
	}
	var wrote []history.Event
	latest, marked := sign.At, time.Duration(0)
	for _, e := range st.History.Events {
		if e.Kind != history.HandlerWrote || e.Node != node || e.Said == nil || *e.Said < put.At || *e.Said > sign.At {
			continue
		}
		e.At = *e.Said
		wrote = append(wrote, e)
		if !e.WroteNode() {
			latest = min(latest, e.At)
		} else {
			marked = max(marked, e.At)
		}
	}
	if len(wrote) == 0 {
		return Commit{sign, sign.At - SeenLate, sign.At}, true
	}
	if marked > 0 {
		latest = min(latest, marked)
	}
	first := slices.MinFunc(wrote, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	return Commit{first, first.At, latest}, true
}

// Drained is when the last pod that had to leave the node had ended, which may have been seen late. From
// then on nothing of it runs, although its object may stay for a while.
func Drained(st *Story, node string, put history.Event) (Commit, bool) {
	last := put
	for _, p := range st.ToDrain(node, put) {
		gone, ok := p.FirstOf(history.PodFinished)
		if !ok {
			gone, ok = p.Left()
		}
		if !ok {
			return Commit{}, false
		}
		if gone.At > last.At {
			last = gone
		}
	}
	return Commit{last, last.At - SeenLate, last.At - SeenLate}, true
}

// Countdown is when a time to act begins to count.
type Countdown struct {
	From     time.Duration
	Evidence []history.Event // what it was read from
	received bool            // it counts from when the message could be received
}

// Countdown counts from the put of a notice or message, or from the end of a fault or
// disturbance if one is named and ended later. If that is unknown, why is the reason.
func (st *Story) Countdown(put history.Event, name string) (c Countdown, why string) {
	c = Countdown{From: put.At, Evidence: []history.Event{put}}
	if name == "" {
		return c, ""
	}
	ended, why := st.EndOf(name)
	if why == "" && ended.At > put.At {
		c.From, c.Evidence = ended.At, append(c.Evidence, ended)
	}
	return c, why
}

// Extended is the countdown for something that came later than within allows: it begins
// when the handler could have the message, if that was later.
func (st *Story) Extended(c Countdown, put history.Event, at, within time.Duration) Countdown {
	if at <= c.From+within {
		return c
	}
	if since, received := st.Receivable(put); since > c.From {
		c.From, c.Evidence, c.received = since, append(slices.Clone(c.Evidence), received), true
	}
	return c
}

// After describes how long after the beginning of the countdown something came.
func (c Countdown) After(at time.Duration) string {
	text := history.Seconds(at - c.From)
	if c.received {
		text += ", counted from when the message could be received at +" + history.Seconds(c.From)
	}
	return text
}
