package history

import "strings"

// What went through the recording proxy between handler and API server, and what nodes requested of the
// stand-in for the metadata of their instances. Calls have Action (the verb, in the terms of RBAC), Resource, the
// object as Node, Pod or Object, and IP: which client called. Nothing else of a request is recorded, and no header.
const (
	APICall      Kind = "api.call"
	APIFolded    Kind = "api.folded"
	APIWatching  Kind = "api.watching"
	APIRecorded  Kind = "api.recorded"
	MetadataRead Kind = "metadata.read"
)

// The constructors of these events.
var (
	// NewAPICall is one call. Marks are those that a write to a node sets. At is when it was answered, of a watch
	// when it began. Status is the HTTP status of the API server or of the fault, 0 for none; Fault: which fault hit
	// it; Note: what the proxy reports of it; Owner: ProxyOwner if the proxy itself failed. Numbers: took (s), retry_after (s).
	NewAPICall = event3(APICall, Action, Resource, marks)
	// NewAPIWatching is a watch that was running when recording began.
	NewAPIWatching = event1(APIWatching, watched)
	// NewAPIRecorded is the end of the record: calls after At are not on it.
	NewAPIRecorded = event0(APIRecorded)
	// NewMetadataRead is the requests of a node for one path below /latest/ that had the same result, as the
	// stand-in for the instance metadata service counted them, and the type of the notice that the answer announced, if
	// any. Instance; Action: the HTTP method; Status, 0 if no answer arrived; Fault; Until: the last of them; Numbers: requests.
	NewMetadataRead = event3(MetadataRead, Node, about, typed[NoticeType](why))
)

func watched(resource string) Detail {
	return func(e *Event) { e.Action, e.Resource = "watch", resource }
}

func marks(all []string) Detail { return why(strings.Join(all, ",")) }

// Marks are what a write to a node set: a cordon is MarkUnschedulable, a taint its key, and MarksUnknown is
// what the proxy could not read.
func (e Event) Marks() []string {
	text := e.reasonOf(APICall, APIFolded)
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// The marks that are no taints.
const (
	MarkUnschedulable = "unschedulable"
	MarksUnknown      = "unknown"
)

// Folded reports more calls than the history needs that are the same as an APICall in all but its time, in one
// second. Numbers: calls, within (s, before At).
func (e Event) Folded(calls Numbers) Event {
	e.Kind, e.Numbers = APIFolded, calls
	return e
}

// MetadataPath is the path of a MetadataRead.
func (e Event) MetadataPath() string { return e.keyOf(MetadataRead) }

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

// Resources of the API server that checks refer to, as in an event's Resource.
const (
	NodesResource     = "/nodes"
	PodsResource      = "/pods"
	EvictionsResource = "/pods/eviction"
	LeasesResource    = "coordination.k8s.io/leases"
)

// SQSPermission is the action of an IAM policy that allows a call of SQS: IAM has no actions of their
// own for batches.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-api-permissions-reference.html
func SQSPermission(action string) string {
	switch action {
	case "DeleteMessageBatch", "ChangeMessageVisibilityBatch", "SendMessageBatch":
		return strings.TrimSuffix(action, "Batch")
	}
	return action
}

// KubectlName is the resource of an APICall as in kubectl: resource.group/subresource.
func KubectlName(resource string) string {
	group, rest, _ := strings.Cut(resource, "/")
	name, subresource, sub := strings.Cut(rest, "/")
	if group != "" {
		name += "." + group
	}
	if sub {
		name += "/" + subresource
	}
	return name
}
