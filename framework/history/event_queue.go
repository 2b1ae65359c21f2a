package history

// What went through the recording proxy between handler and SQS, and its calls of Auto Scaling.
const (
	SQSCall        Kind = "sqs.call"
	SQSReceived    Kind = "sqs.receive"
	SQSDeleted     Kind = "sqs.delete"
	LifecycleActed Kind = "lifecycle.acted"
	QueueDepth     Kind = "queue.depth"
)

// NewSQSCall is one API call; code is that of its error, or empty. Status; Account: the queue's; Owner:
// ProxyOwner or empty; IP: the client's; Note: what the proxy reports of it; Message and Notice: whose visibility
// it changed. Numbers: took (s), of a receive also messages and polls.
func NewSQSCall(queue, action, code string, with ...Detail) Event {
	return newEvent(SQSCall, queue, code, with, Action(action))
}

// NewSQSReceived is a message that was handed out. IP: the client's.
func NewSQSReceived(queue, message, notice string, with ...Detail) Event {
	return newEvent(SQSReceived, queue, "", with, Message(message), Notice(notice))
}

// NewSQSDeleted is a message that was deleted.
func NewSQSDeleted(queue, message, notice string, with ...Detail) Event {
	return newEvent(SQSDeleted, queue, "", with, Message(message), Notice(notice))
}

// Queue is the queue of a call of SQS, and of what it received or deleted.
func (e Event) Queue() string { return e.keyOf(SQSCall, SQSReceived, SQSDeleted) }

// ErrorCode is the code of the error of an SQSCall.
func (e Event) ErrorCode() ErrorCode { return ErrorCode(e.reasonOf(SQSCall)) }

// NewLifecycleActed is a call about a lifecycle hook of Auto Scaling, which the proxy answered in its
// place. The action is CompleteLifecycleAction or RecordLifecycleActionHeartbeat, the result CONTINUE,
// ABANDON or empty. Note: the token.
func NewLifecycleActed(action, hook, instance, result string, with ...Detail) Event {
	return newEvent(LifecycleActed, hook, result, with, Action(action), Instance(instance))
}

// Hook is the lifecycle hook of a LifecycleActed.
func (e Event) Hook() string { return e.keyOf(LifecycleActed) }

// LifecycleResult is the result of a LifecycleActed.
func (e Event) LifecycleResult() string { return e.reasonOf(LifecycleActed) }

// NewQueueDepth has how many messages are in the queue at the end of recording. Numbers: visible, invisible.
func NewQueueDepth(with ...Detail) Event { return newEvent(QueueDepth, "", "", with) }

// UnderTest and OtherHandler are the By of what handlers did, and the names of their
// installations: of the handler under test, and of another one next to it.
const (
	UnderTest    = ""
	OtherHandler = "second"
)

// AccessKeyPrefix and the name of an installation next to that of the handler under test are the
// access key of its AWS credentials, by which the proxy knows whose call it is.
const AccessKeyPrefix = "spotdrill-"

// ProxyOwner is the Owner of an event that reports a call the proxy made for
// itself. Such a call is no action of the handler's.
const ProxyOwner = "proxy"
