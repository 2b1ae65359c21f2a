package history

// What went through the recording proxy between handler and SQS, and its calls of Auto Scaling.
const (
	SQSCall        Kind = "sqs.call"
	SQSReceived    Kind = "sqs.receive"
	SQSDeleted     Kind = "sqs.delete"
	LifecycleActed Kind = "lifecycle.acted"
	QueueDepth     Kind = "queue.depth"
)

// The constructors of these events.
var (
	// NewSQSCall is one API call; code is that of its error, or empty. Status; Account: the queue's; Owner:
	// ProxyOwner or empty; IP: the client's; Note: what the proxy reports of it; Message and Notice: whose visibility
	// it changed. Numbers: took (s), of a receive also messages and polls.
	NewSQSCall = event3(SQSCall, about, Action, why)
	// NewSQSReceived is a message that was handed out. IP: the client's.
	NewSQSReceived = event3(SQSReceived, about, Message, Notice)
	// NewSQSDeleted is a message that was deleted.
	NewSQSDeleted = event3(SQSDeleted, about, Message, Notice)
	// NewLifecycleActed is a call about a lifecycle hook of Auto Scaling, which the proxy answered in its
	// place. The action is CompleteLifecycleAction or RecordLifecycleActionHeartbeat, the result CONTINUE,
	// ABANDON or empty. Note: the token.
	NewLifecycleActed = event4(LifecycleActed, Action, about, Instance, why)
	// NewQueueDepth has how many messages are in the queue at the end of recording. Numbers: visible, invisible.
	NewQueueDepth = event0(QueueDepth)
)

// Queue is the queue of a call of SQS, and of what it received or deleted.
func (e Event) Queue() string { return e.keyOf(SQSCall, SQSReceived, SQSDeleted) }

// ErrorCode is the code of the error of an SQSCall.
func (e Event) ErrorCode() ErrorCode { return ErrorCode(e.reasonOf(SQSCall)) }

// Hook is the lifecycle hook of a LifecycleActed.
func (e Event) Hook() string { return e.keyOf(LifecycleActed) }

// LifecycleResult is the result of a LifecycleActed.
func (e Event) LifecycleResult() string { return e.reasonOf(LifecycleActed) }

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
