package verdict

import (
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// keeps is why the handler leaves messages in the queue in this scenario, by its
// description; empty if it does not show it.
func (j judge) keeps() string { return j.History.Meta.Handler.Keeps[j.Scenario.Name] }

// mayKeep reports whether what was put may stay in the queue: it is not a notice that
// names a node of the cluster.
func (j judge) mayKeep(put history.Event) bool {
	return j.keeps() != "" && (put.Kind == history.MessagePut || put.Node == "")
}

// kept is how many messages are still there that may stay in the queue.
func (j judge) kept() (n int) {
	for _, put := range j.All(func(e history.Event) bool { return e.Kind == history.NoticePut || e.Kind == history.MessagePut }) {
		if !j.mayKeep(put) {
			continue
		}
		for _, id := range j.MessagesOf(put) {
			if _, _, gone := j.LastDeletion(id); !gone {
				n++
			}
		}
	}
	return n
}

// neverReceived distinguishes a handler that left the message in the queue from a
// message that never got there.
func (j judge) neverReceived(v Verdict, put history.Event, until time.Duration) Verdict {
	if why := j.Unrecorded(until); why != "" {
		return v.unknown("never received: "+why, put)
	}
	for _, e := range j.History.Events {
		if e.Kind == history.QueueDepth && e.Numbers[history.Visible]+e.Numbers[history.Invisible] > 0 {
			return v.fail("never received; messages were left in the queue at the end", put, e)
		}
	}
	return v.unknown("never received, and none was left in the queue: it may never have got there", put)
}

// clockError is how far the times of the proxy and of the API server may be apart on one
// kernel: the audit log has whole microseconds, and each takes its time a moment after the
// request has arrived.
const clockError = time.Millisecond

// callsForDrain reports whether the scenario requires the node to be drained for the
// notice.
func (j judge) callsForDrain(put history.Event) bool {
	return slices.ContainsFunc(j.Scenario.Checks, func(check scenarios.Check) bool {
		c, ok := check.Requirement.(Drained)
		if !ok || c.Terminating || c.Notice != put.Step() {
			return false
		}
		node, why := j.Node(c.Node)
		return why == "" && node == put.Node
	})
}

// commit is a commit point that a handler reached, and between when.
type commit struct {
	shown            history.Event // what shows it, at the time that it had
	earliest, latest time.Duration
}

// emptied is when the last pod that had to leave the node was gone, which may have
// been seen late.
func (j judge) emptied(node string, put history.Event) (commit, bool) {
	last := put
	for _, p := range j.ToDrain(node, put) {
		gone, ok := p.Left()
		if !ok {
			return commit{}, false
		}
		if gone.At > last.At {
			last = gone
		}
	}
	return commit{last, last.At - seenLate, last.At - seenLate}, true
}
