package story

import (
	"slices"
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
			put.Kind == history.MessagePut && e.Message == put.Message)
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
		return e.Kind == history.SQSCall && e.Owner != history.ProxyOwner && e.Action == "ReceiveMessage" && e.Key == received.Key && Done(e)
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
