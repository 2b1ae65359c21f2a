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
	v = v.requires("no message deleted before the drain that it calls for is " + string(point))
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
