package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

var checkDeleted = check{
	Kind: Kind{
		ID: "deleted", Title: "deleted %s",
		Requires: "Every message of the notice or message step is deleted from the queue within a time. If a message came late to a handler that asked for it, the time counts from then.",
		Fix:      "delete a message once its drain is recorded on the node, and delete also what cannot be read or is about no node of this cluster",
		Look:     Look{Lane: LaneHandler, Text: "the lane Handler: received and never deleted, or never received? Then handler.log"},
	},
	judge: by(deleted),
}

func deleted(j judge, v Verdict, c scenarios.Deleted) Verdict {
	v = v.wants(fmt.Sprintf("every message of %q deleted from the queue within %s", c.Of, c.Within.D())+wantAfter(c.After), c.Of)
	puts := j.All(func(e history.Event) bool {
		return (e.Kind == history.NoticePut || e.Kind == history.MessagePut) && e.Step() == c.Of
	})
	if len(puts) == 0 {
		return v.unknown(fmt.Sprintf("%q was never put", c.Of))
	}
	var slowest time.Duration
	messages, kept := 0, 0
	evidence := slices.Clone(puts)
	for i, put := range puts {
		if put.Notice != "" && slices.ContainsFunc(puts[:i], func(e history.Event) bool { return e.Notice == put.Notice }) {
			continue // one notice for several nodes
		}
		limit, why := j.limitOf(put, c.After)
		if why != "" {
			return v.unknown(why, put)
		}
		until := limit.from + c.Within.D()
		ids := j.MessagesOf(put)
		if len(ids) == 0 {
			return j.neverReceived(v, put, until)
		}
		for _, id := range ids {
			messages++
			received, deleted, ok := j.LastDeletion(id)
			if !ok && j.mayKeep(put) {
				kept++
				continue
			}
			switch {
			case !ok && j.Unrecorded(until) != "":
				return v.unknown("not deleted: "+j.Unrecorded(until), put, received)
			case !ok && deleted.Seq > 0:
				return v.fail(fmt.Sprintf("message %s received again after it was deleted, and not deleted since", id), put, deleted, received)
			case !ok:
				return v.fail(fmt.Sprintf("message %s received and not deleted", id), put, received)
			}
			evidence = append(evidence, received, deleted)
			limit := j.extended(limit, put, deleted.At, c.Within.D())
			slowest = max(slowest, deleted.At-limit.from)
			if deleted.At > limit.from+c.Within.D() {
				v.Numbers = map[string]float64{"deleted_seconds": slowest.Seconds()}
				if why := j.handlerWaited(limit.from, deleted.At, limit.from+c.Within.D()); why != "" {
					return v.noise(fmt.Sprintf("message %s deleted after %s: %s", id, history.Seconds(slowest), why), put, received, deleted)
				}
				return v.fail(fmt.Sprintf("message %s deleted after %s", id, history.Seconds(slowest)), put, received, deleted)
			}
		}
	}
	v.Numbers = map[string]float64{"deleted_seconds": slowest.Seconds(), "messages": float64(messages), "kept": float64(kept)}
	if kept > 0 {
		return v.pass(fmt.Sprintf("%d deleted, %d kept: %s", messages-kept, kept, j.keeps()), capped(evidence)...)
	}
	return v.pass(fmt.Sprintf("%d deleted, the last after %s", messages, history.Seconds(slowest)), capped(evidence)...)
}

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

var checkQueueEmpty = check{
	Kind: Kind{
		ID: "queueEmpty", Title: "queue empty",
		Requires: "No message is in the queue at the end, neither visible nor handed out.",
		Fix:      "delete every message that the handler is done with, also those that it does nothing about, or they come again until the queue's retention ends",
		Look:     Look{Lane: LaneHandler, Text: "the lane Handler: which message was received and never deleted? Then handler.log"},
	},
	judge: by(queueEmpty),
}

func queueEmpty(j judge, v Verdict, _ scenarios.QueueEmpty) Verdict {
	v = v.wants("no message in the queue at the end")
	for _, e := range slices.Backward(j.History.Events) {
		if e.Kind != history.QueueDepth {
			continue
		}
		visible, invisible := e.Numbers[history.Visible], e.Numbers[history.Invisible]
		v.Numbers = map[string]float64{"visible": visible, "invisible": invisible}
		if left := visible + invisible; left > 0 && left <= float64(j.kept()) {
			return v.pass(fmt.Sprintf("%.0f kept: %s", left, j.keeps()), e)
		}
		if visible+invisible != 0 {
			if cut, ok := j.FirstOf(history.RunError); ok {
				return v.unknown(fmt.Sprintf("%.0f visible and %.0f handed out when the drill was cut short", visible, invisible), e, cut)
			}
			return v.fail(fmt.Sprintf("%.0f visible and %.0f handed out", visible, invisible), e)
		}
		return v.pass("none", e)
	}
	return v.unknown("the history does not show how many messages were left")
}

var checkNoneLost = check{
	Kind: Kind{
		ID: "noMessageLost", Title: "no message lost",
		Requires: "Every message that was put is deleted by the handler, or is in the queue at the end, or has expired there as the drill wanted it.",
		Fix:      "only the handler under test may take messages from its queue: look in the queue's calls for another reader, a purge, or a deletion of what was not handled",
		Look:     Look{Lane: LaneHandler, Text: "the lane Handler, and the sqs.call and sqs.delete events of history.jsonl: who took the message?"},
	},
	always: ofQueue(noneLost),
}

// noneLost checks whether every message is accounted for: deleted by the handler,
// or in the queue at the end.
func noneLost(j judge, v Verdict) Verdict {
	v = v.wants("every message deleted by the handler, or in the queue at the end")
	depth, ok := history.Event{}, false
	for _, e := range j.History.Events {
		if e.Kind == history.QueueDepth {
			depth, ok = e, true
		}
	}
	if !ok {
		return v.unknown("the history does not show how many messages were left")
	}
	n := j.Account()
	left := int(depth.Numbers[history.Visible] + depth.Numbers[history.Invisible])
	v.Numbers = map[string]float64{"put": float64(n.Put), "deleted": float64(n.Put - len(n.Undeleted)), "left": float64(left)}
	rest := fmt.Sprintf("%d left", left)
	if expired := j.expired(); expired > 0 {
		v.Numbers["expired"] = float64(expired)
		rest += fmt.Sprintf(", %d expired", expired)
		left += expired
	}
	missing := len(n.Kept) + len(n.Unseen)
	if why := j.Unrecorded(j.End); why != "" {
		return v.unknown("deletions: "+why, depth)
	}
	if missing > 0 && left > 0 && history.BesideOthers(j.Events) {
		return v.unknown(fmt.Sprintf("%d of %d were not deleted, and the %d in the queue may be another drill's", len(n.Undeleted), n.Put, left), depth)
	}
	evidence := append(capped(slices.Concat(n.Undeleted, n.Kept)), depth)
	switch {
	case missing <= left && (len(n.Unseen) == 0 || missing+n.Again <= left):
		return v.pass(fmt.Sprintf("%d put, %d deleted, %s", n.Put, n.Put-len(n.Undeleted), rest), depth)
	case missing <= left:
		return v.unknown(fmt.Sprintf("%d of %d were not deleted, and the %d in the queue may be messages that came again after they were deleted", len(n.Undeleted), n.Put, left), evidence...)
	case len(n.Undeleted) == 0:
		return v.fail(fmt.Sprintf("message %s was not deleted, and %d were in the queue", n.Kept[0].Message, left), evidence...)
	}
	return v.fail(fmt.Sprintf("%d of %d were not deleted, and %d were in the queue", len(n.Undeleted), n.Put, left), evidence...)
}

// expired is how many messages went when the retention of the queue was over, which a fault of the
// drill had made short.
func (j judge) expired() int {
	return len(j.All(func(e history.Event) bool {
		return e.Kind == history.FaultHit && e.FaultType() == history.ShortRetention
	}))
}

var checkCommitPoint = check{
	Kind: Kind{
		ID: "commitPoint", Title: "commit point",
		Requires: "No message is deleted before the drain that it calls for has reached the commit point of the handler's description.",
		Fix:      "delete the message only at the commit point that the handler's description names: a handler that is killed before it would forget the notice",
		Look:     Look{Lane: LaneHandler, Text: "the lanes Handler and Node: was the message deleted before the node was marked or drained?"},
	},
	always: commitPoint,
}

// commitPoint checks whether the handler deleted a message only when its description
// reports that it may: once the drain is recorded, which shows as a mark on the
// node, or once it is done. It covers the notices that call for a drain in this
// scenario; ok is false if there is none, if the handler may delete what it has
// received, or if another handler next to it may be the one that drains.
func commitPoint(j judge, v Verdict) (Verdict, bool) {
	if j.History.Meta.Other != nil {
		return v, false
	}
	point := j.History.Meta.Handler.CommitPoint
	reached, known := map[history.CommitPoint]func(node string, put history.Event) (commit, bool){
		history.CommitRecorded: j.recordedBy, history.CommitDrained: j.emptied,
	}[point]
	if !known {
		return v, false
	}
	v = v.wants("no message deleted before the drain that it calls for is " + string(point))
	judged := 0
	for _, put := range j.All(func(e history.Event) bool { return e.Kind == history.NoticePut && j.callsForDrain(e) }) {
		for _, id := range j.MessagesOf(put) {
			// Only the first deletion counts.
			deleted, ok := j.First(func(e history.Event) bool { return e.Kind == history.SQSDeleted && e.Message == id })
			if !ok {
				continue
			}
			judged++
			arrived, clocks := j.arrival(deleted)
			at, ok := reached(put.Node, put)
			switch {
			case !ok:
				return v.fail(fmt.Sprintf("message of %q deleted, and the drain of %s never %s", put.Step(), put.Node, point), put, deleted), true
			case arrived+clocks < at.earliest:
				return v.fail(fmt.Sprintf("message of %q deleted %s before the drain of %s was %s", put.Step(), history.Seconds(at.shown.At-arrived), put.Node, point), put, deleted, at.shown), true
			case arrived < at.latest:
				return v.unknown(fmt.Sprintf("message of %q deleted %s before the drain of %s was surely %s: no write of the handler's in the audit log may have done it, or several may",
					put.Step(), history.Seconds(at.latest-arrived), put.Node, point), put, deleted, at.shown), true
			case arrived-clocks < at.latest:
				return v.unknown(fmt.Sprintf("message of %q deleted %s after the drain of %s was %s, which is within the error of the clocks",
					put.Step(), history.Seconds(arrived-at.latest), put.Node, point), put, deleted, at.shown), true
			}
		}
	}
	v.Numbers = map[string]float64{"messages": float64(judged)}
	return v.pass(fmt.Sprintf("%d messages deleted in time", judged)), judged > 0
}

// clockError is how far the times of the proxy and of the API server may be apart on one
// kernel: the audit log has whole microseconds, and each takes its time a moment after the
// request has arrived.
const clockError = time.Millisecond

// arrival is when the request for a deletion reached the proxy, and how far the proxy's
// clock and the API server's may be apart. From then on the message may be gone; the
// answer may come much later.
func (j judge) arrival(deleted history.Event) (at, clocks time.Duration) {
	clocks = max(clockError, deleted.Numbers.Duration(history.ClockBound))
	call, ok := j.First(func(e history.Event) bool {
		return e.Kind == history.SQSCall && e.At == deleted.At && strings.HasPrefix(e.Action, "DeleteMessage")
	})
	if !ok {
		return deleted.At, clocks
	}
	return story.Arrived(call), max(clocks, call.Numbers.Duration(history.ClockBound))
}

// callsForDrain reports whether the scenario requires the node to be drained for the
// notice.
func (j judge) callsForDrain(put history.Event) bool {
	return slices.ContainsFunc(j.Scenario.DrainsFor(put.Step()), func(name string) bool {
		node, why := j.Node(name)
		return why == "" && node == put.Node
	})
}

// commit is a commit point that a handler reached, and between when.
type commit struct {
	shown            history.Event // what shows it, at the time that it had
	earliest, latest time.Duration
}

// recordedBy is when the drain of the node was recorded. Its first sign may have been
// seen late, but one of the handler's writes in the audit log, between the notice and
// the sign, made it: if all of them are on one side of a moment, so is the record. The
// deletion of an object that the handler has for the node is a record by itself.
func (j judge) recordedBy(node string, put history.Event) (commit, bool) {
	sign, ok := j.DrainBegun(node)
	if !ok {
		return commit{}, false
	}
	var wrote []history.Event
	latest, marked := sign.At, time.Duration(0)
	for _, e := range j.History.Events {
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
		return commit{sign, sign.At - seenLate, sign.At}, true
	}
	if marked > 0 {
		latest = min(latest, marked)
	}
	first := slices.MinFunc(wrote, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	return commit{first, first.At, latest}, true
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
