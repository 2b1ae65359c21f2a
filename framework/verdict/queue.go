package verdict

import (
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

func (d drill) deleted(c scenarios.Deleted) Verdict {
	v := Verdict{Check: "deleted " + c.Of, Want: fmt.Sprintf("every message of %q deleted from the queue within %s", c.Of, c.Within.D()) + wantAfter(c.After)}
	puts := d.all(func(e history.Event) bool {
		return (e.Kind == history.NoticePut || e.Kind == history.MessagePut) && e.Key == c.Of
	})
	if len(puts) == 0 {
		return v.unknown(fmt.Sprintf("%q was never put", c.Of))
	}
	var slowest time.Duration
	messages := 0
	evidence := slices.Clone(puts)
	for i, put := range puts {
		if put.Notice != "" && slices.ContainsFunc(puts[:i], func(e history.Event) bool { return e.Notice == put.Notice }) {
			continue // one notice for several nodes
		}
		limit, why := d.limitOf(put, c.After)
		if why != "" {
			return v.unknown(why, put)
		}
		until := limit.from + c.Within.D()
		ids := d.messagesOf(put)
		if len(ids) == 0 {
			return d.neverReceived(v, put, until)
		}
		for _, id := range ids {
			messages++
			received, deleted, ok := d.lastDeletion(id)
			switch {
			case !ok && d.unseen(until) != "":
				return v.unknown("not deleted: "+d.unseen(until), put, received)
			case !ok && deleted.Seq > 0:
				return v.fail(fmt.Sprintf("message %s received again after it was deleted, and not deleted since", id), put, deleted, received)
			case !ok:
				return v.fail(fmt.Sprintf("message %s received and not deleted", id), put, received)
			}
			evidence = append(evidence, received, deleted)
			if slowest = max(slowest, deleted.At-limit.from); deleted.At > until {
				v.Numbers = map[string]float64{"deleted_seconds": slowest.Seconds()}
				return v.fail(fmt.Sprintf("message %s deleted after %s", id, history.Seconds(slowest)), put, received, deleted)
			}
		}
	}
	v.Numbers = map[string]float64{"deleted_seconds": slowest.Seconds(), "messages": float64(messages)}
	return v.pass(fmt.Sprintf("%d deleted, the last after %s", messages, history.Seconds(slowest)), capped(evidence)...)
}

// messagesOf are the SQS messages that carry what was put: EventBridge may
// deliver a notice more than once. They are known once they were received.
func (d drill) messagesOf(put history.Event) []string {
	var ids []string
	for _, e := range d.events {
		if e.Kind != history.SQSReceived || e.Message == "" || slices.Contains(ids, e.Message) {
			continue
		}
		if put.Kind == history.NoticePut && put.Notice != "" && e.Notice == put.Notice ||
			put.Kind == history.MessagePut && e.Message == put.Message {
			ids = append(ids, e.Message)
		}
	}
	return ids
}

// lastDeletion finds the last receipt of a message and the deletion after it. A
// message that is handed out again after a deletion was not gone: ok is false
// then, and deleted is the deletion that did not hold.
func (d drill) lastDeletion(id string) (received, deleted history.Event, ok bool) {
	for _, e := range d.events {
		switch {
		case e.Message != id:
		case e.Kind == history.SQSReceived:
			received, ok = e, false
		case e.Kind == history.SQSDeleted:
			deleted, ok = e, true
		}
	}
	return received, deleted, ok
}

// neverReceived tells a handler that left the message in the queue from a
// message that never got there.
func (d drill) neverReceived(v Verdict, put history.Event, until time.Duration) Verdict {
	if why := d.unseen(until); why != "" {
		return v.unknown("never received: "+why, put)
	}
	for _, e := range d.history.Events {
		if e.Kind == history.QueueDepth && e.Numbers["visible"]+e.Numbers["invisible"] > 0 {
			return v.fail("never received; messages were left in the queue at the end", put, e)
		}
	}
	return v.unknown("never received, and none was left in the queue: it may never have got there", put)
}
