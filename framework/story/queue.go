package story

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// MessagesOf are the SQS messages that carry what was put: EventBridge may deliver a
// notice more than once. They are known once they were received.
func (st *Story) MessagesOf(put history.Event) []string {
	var ids []string
	for _, e := range st.Events {
		if carries(e, put) && !slices.Contains(ids, e.Message) {
			ids = append(ids, e.Message)
		}
	}
	return ids
}

// carries reports whether by this event a message that carries what was put is
// received.
func carries(e, put history.Event) bool {
	return e.Kind == history.SQSReceived && e.Message != "" &&
		(put.Kind == history.NoticePut && put.Notice != "" && e.Notice == put.Notice ||
			put.Message != "" && e.Message == put.Message)
}

// Receivable is since when the handler could have what was put, and by which event it
// received it first. EventBridge and SQS may deliver late: an answer without a message
// shows that there was none yet, and so does a call that waits for its answer. Only the
// time between the last such answer and the call that brought the message is the
// handler's own. What was never received could be had since it was put.
func (st *Story) Receivable(put history.Event) (since time.Duration, received history.Event) {
	received, ok := st.First(func(e history.Event) bool { return e.At >= put.At && carries(e, put) })
	if !ok {
		return put.At, received
	}
	asked, empty := received.At, put.At
	calls := st.All(func(e history.Event) bool {
		return e.Kind == history.SQSCall && e.Owner != history.ProxyOwner && e.Action == "ReceiveMessage" && e.Queue() == received.Queue() && Done(e)
	})
	for _, call := range calls {
		switch {
		case call.At == received.At:
			asked = Arrived(call)
		case call.At < received.At && call.Numbers[history.Messages] == 0:
			empty = max(empty, call.At)
		}
	}
	return received.At - max(0, asked-empty), received
}

// Arrived is when a call reached the proxy. Its event is recorded with its answer.
func Arrived(call history.Event) time.Duration {
	return call.At - call.Numbers.Duration(history.Took)
}

// QueueCalls are the handler's calls of SQS that reached the proxy in that time, in the order in
// which they did.
func QueueCalls(st *Story, from, to time.Duration) (calls []history.Event) {
	for _, e := range st.History.Events {
		if at := Arrived(e); e.Kind == history.SQSCall && e.Owner != history.ProxyOwner && !strings.Contains(e.Action, ":") && at >= from && at <= to {
			calls = append(calls, e)
		}
	}
	slices.SortStableFunc(calls, func(a, b history.Event) int { return cmp.Compare(Arrived(a), Arrived(b)) })
	return calls
}

// LastDeletion finds the last receipt of a message and the deletion after it. A
// message that is handed out again after a deletion was not gone: ok is false
// then, and deleted is the deletion that did not hold.
func (st *Story) LastDeletion(id string) (received, deleted history.Event, ok bool) {
	for _, e := range st.Events {
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

// Account is what became of everything that was put. One notice may have several
// messages, so that as many messages as are missing may be left, and be others.
type Account struct {
	Put       int             // notices and messages
	Undeleted []history.Event // of these, those of which no message was deleted
	Unseen    []history.Event // of the undeleted, those of which no message was received
	Kept      []history.Event // the first receipt of each message that was never deleted
	Again     int             // messages that came again after they were deleted: they may be in the queue or not
}

// Account reads what became of everything that the drill put.
func (st *Story) Account() Account {
	a, puts, seen := Account{}, map[string]bool{}, map[string]bool{}
	for _, put := range st.All(func(e history.Event) bool { return e.Kind == history.NoticePut || e.Kind == history.MessagePut }) {
		id := cmp.Or(put.Notice, put.Message)
		if id == "" || puts[id] {
			continue
		}
		puts[id] = true
		a.Put++
		ids, gone := st.MessagesOf(put), false
		for _, e := range st.History.Events {
			gone = gone || e.Kind == history.SQSDeleted && (e.Notice == id || e.Message == id)
		}
		if !gone {
			a.Undeleted = append(a.Undeleted, put)
			if len(ids) == 0 {
				a.Unseen = append(a.Unseen, put)
			}
		}
		for _, message := range ids {
			if seen[message] {
				continue
			}
			seen[message] = true
			switch received, deleted, ok := st.LastDeletion(message); {
			case deleted.Seq == 0 && !st.deletedLater(message):
				a.Kept = append(a.Kept, received)
			case deleted.Seq > 0 && !ok:
				a.Again++
			}
		}
	}
	return a
}

// deletedLater reports whether the message was deleted when the drill was over.
func (st *Story) deletedLater(message string) bool {
	return slices.ContainsFunc(st.History.Events, func(e history.Event) bool { return e.Kind == history.SQSDeleted && e.Message == message })
}

// KeepsMessages is why the handler leaves messages in the queue in this scenario, by its
// description; empty if it does not show it.
func (st *Story) KeepsMessages() string { return st.History.Meta.Handler.Keeps[st.Scenario.Name] }

// MayKeep reports whether what was put may stay in the queue: it is not a notice that
// names a node of the cluster.
func (st *Story) MayKeep(put history.Event) bool {
	return st.KeepsMessages() != "" && (put.Kind == history.MessagePut || put.Node == "")
}

// KeptMessages is how many messages are still there that may stay in the queue.
func (st *Story) KeptMessages() (n int) {
	for _, put := range st.All(func(e history.Event) bool { return e.Kind == history.NoticePut || e.Kind == history.MessagePut }) {
		if !st.MayKeep(put) {
			continue
		}
		for _, id := range st.MessagesOf(put) {
			if _, _, gone := st.LastDeletion(id); !gone {
				n++
			}
		}
	}
	return n
}

// Polls finds a poll of the queue that a pod began, or had not ended, after that time.
func Polls(st *Story, p Pod, after time.Duration) (history.Event, bool) {
	return st.First(func(e history.Event) bool {
		return e.Kind == history.SQSCall && e.Owner != history.ProxyOwner && e.Action == "ReceiveMessage" && e.At > after && p.HasIP(e.IP)
	})
}

// Expired is how many messages went when the retention of the queue was over, which a fault of the
// drill had made short.
func Expired(st *Story) int {
	return len(st.All(func(e history.Event) bool {
		return e.Kind == history.FaultHit && e.FaultType() == history.ShortRetention
	}))
}

// Depth is the last count of the messages in the queue.
func (st *Story) Depth() (last history.Event, ok bool) {
	for _, e := range st.History.Events {
		if e.Kind == history.QueueDepth {
			last, ok = e, true
		}
	}
	return last, ok
}
