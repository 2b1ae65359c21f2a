package history

import (
	"slices"
	"time"
)

// FaultTarget is what goes wrong for a handler.
type FaultTarget string

// The targets.
const (
	OnQueue    FaultTarget = "queue"    // SQS
	OnAPI      FaultTarget = "api"      // the Kubernetes API server
	OnEC2      FaultTarget = "ec2"      // what EC2 launches
	OnMetadata FaultTarget = "metadata" // the metadata service of an instance
)

// FaultTargets lists every target.
func FaultTargets() []FaultTarget { return []FaultTarget{OnQueue, OnAPI, OnEC2, OnMetadata} }

// FaultType is a way in which a target goes wrong. It means the same on each of its targets.
type FaultType string

// The fault types; docs/faults.md documents what a client sees of each.
const (
	Delay       FaultType = "delay"        // each answer comes late
	Throttle    FaultType = "throttle"     // calls are refused because there are too many
	ServerError FaultType = "error"        // calls are refused: HTTP 500 or 503
	Reset       FaultType = "reset"        // the connection is reset in place of an answer; the call has no effect
	BlackHole   FaultType = "black-hole"   // calls are accepted and not answered; they have no effect
	LostAnswer  FaultType = "lost-answer"  // the call takes effect, and the connection is reset in place of the answer
	ClientError FaultType = "client-error" // calls are refused as the client's fault: no access, expired credentials, no such queue

	FailedEntry    FaultType = "failed-entry"    // one deletion has no effect: an entry of a batch fails, or a single call is refused
	Duplicate      FaultType = "duplicate"       // what is received is delivered a second time
	Reorder        FaultType = "reorder"         // the order within a batch is reversed
	RecreatedQueue FaultType = "recreated-queue" // the queue is deleted, and created again at the end
	ShortRetention FaultType = "short-retention" // the queue keeps messages for 60 s only
	SecondReader   FaultType = "second-reader"   // somebody else receives messages, and does not delete them

	Conflict   FaultType = "conflict"    // calls are refused: HTTP 409
	Denied     FaultType = "denied"      // calls are refused as by an admission webhook: HTTP 403
	WatchEnded FaultType = "watch-ended" // the server ends watches, as it does after some minutes
	Held       FaultType = "held"        // each call is forwarded late
	Stale      FaultType = "stale"       // the events of watches come late

	NoCapacity     FaultType = "no-capacity"     // EC2 launches nothing: no capacity, a limit, or too low a price
	EndedLaunch    FaultType = "ended-launch"    // what EC2 launches ends before its node registers
	UnjoinedLaunch FaultType = "unjoined-launch" // what EC2 launches runs, and its node never registers
	UnreadyLaunch  FaultType = "unready-launch"  // the node of what EC2 launches registers, and never becomes Ready

	Unauthorized FaultType = "unauthorized" // no session is valid: HTTP 401
)

// FaultKind is a fault type on one of its targets, and the fields of a fault that it has there
// in addition to its name. Every other field is an error.
type FaultKind struct {
	On       FaultTarget
	Type     FaultType
	Requires []string
	Allows   []string
	// Codes are the values of the field code, the default first if code is not required.
	Codes []ErrorCode
}

// FaultKinds lists every fault type on every target.
func FaultKinds() []FaultKind {
	ends := []string{"count", "for"}
	with := func(fields ...string) []string { return slices.Concat(fields, ends, []string{"oneIn", "at"}) }
	return []FaultKind{
		{On: OnQueue, Type: Delay, Requires: []string{"by"}, Allows: with("actions")},
		{On: OnQueue, Type: Throttle, Allows: with("actions", "code"), Codes: []ErrorCode{ThrottlingException, RequestThrottled}},
		{On: OnQueue, Type: ServerError, Requires: []string{"status"}, Allows: with("actions")},
		{On: OnQueue, Type: ClientError, Requires: []string{"code"}, Allows: with("actions"), Codes: []ErrorCode{AccessDenied, ExpiredToken, QueueDoesNotExist}},
		{On: OnQueue, Type: Reset, Allows: with("actions")},
		{On: OnQueue, Type: BlackHole, Allows: with("actions", "silent")},
		{On: OnQueue, Type: LostAnswer, Allows: with("actions")},
		{On: OnQueue, Type: FailedEntry, Allows: with("code"), Codes: []ErrorCode{InternalError, ReceiptHandleIsInvalid}},
		{On: OnQueue, Type: Duplicate, Allows: with("after", "toAnother")},
		{On: OnQueue, Type: Reorder, Allows: ends},
		{On: OnQueue, Type: RecreatedQueue, Requires: []string{"for"}},
		{On: OnQueue, Type: ShortRetention, Requires: []string{"for"}, Allows: []string{"count"}},
		{On: OnQueue, Type: SecondReader, Requires: []string{"for"}, Allows: []string{"count"}},

		{On: OnAPI, Type: Delay, Requires: []string{"by"}, Allows: with("verbs", "resources")},
		{On: OnAPI, Type: Throttle, Allows: with("verbs", "resources", "retryAfter")},
		{On: OnAPI, Type: ServerError, Requires: []string{"status"}, Allows: with("verbs", "resources")},
		{On: OnAPI, Type: Conflict, Allows: with("verbs", "resources")},
		{On: OnAPI, Type: Denied, Allows: with("verbs", "resources")},
		{On: OnAPI, Type: Reset, Allows: with("verbs", "resources")},
		{On: OnAPI, Type: BlackHole, Allows: with("verbs", "resources", "silent")},
		{On: OnAPI, Type: WatchEnded, Allows: append([]string{"resources"}, ends...)},
		{On: OnAPI, Type: LostAnswer, Allows: with("verbs", "resources")},
		{On: OnAPI, Type: Held, Requires: []string{"by"}, Allows: with("verbs", "resources")},
		{On: OnAPI, Type: Stale, Requires: []string{"for"}, Allows: []string{"resources", "at"}},

		{On: OnEC2, Type: NoCapacity, Allows: append([]string{"code", "capacity", "oneIn"}, ends...), Codes: []ErrorCode{InsufficientInstanceCapacity, MaxSpotInstanceCountExceeded, VcpuLimitExceeded, SpotMaxPriceTooLow}},
		{On: OnEC2, Type: EndedLaunch, Allows: ends},
		{On: OnEC2, Type: UnjoinedLaunch, Allows: ends},
		{On: OnEC2, Type: UnreadyLaunch, Allows: ends},

		{On: OnMetadata, Type: Delay, Requires: []string{"for", "by"}, Allows: []string{"node"}},
		{On: OnMetadata, Type: Unauthorized, Requires: []string{"for"}, Allows: []string{"node"}},
		{On: OnMetadata, Type: ServerError, Requires: []string{"for", "status"}, Allows: []string{"node"}},
		{On: OnMetadata, Type: Reset, Requires: []string{"for"}, Allows: []string{"node"}},
	}
}

// KindOfFault returns the fault type on that target; false if it does not exist there.
func KindOfFault(on FaultTarget, t FaultType) (FaultKind, bool) {
	all := FaultKinds()
	i := slices.IndexFunc(all, func(k FaultKind) bool { return k.On == on && k.Type == t })
	if i < 0 {
		return FaultKind{}, false
	}
	return all[i], true
}

// FaultTypes lists every fault type of the targets, each once.
func FaultTypes(on ...FaultTarget) []FaultType {
	var out []FaultType
	for _, k := range FaultKinds() {
		if slices.Contains(on, k.On) && !slices.Contains(out, k.Type) {
			out = append(out, k.Type)
		}
	}
	return out
}

// OfTheQueueItself reports whether the fault is something that an operator does to the queue, and not
// one of its answers.
func (f FaultType) OfTheQueueItself() bool {
	return f == RecreatedQueue || f == ShortRetention || f == SecondReader
}

// OfInstances reports whether the fault is one of the instances that EC2 launched, and not of
// its answers.
func (f FaultType) OfInstances() bool {
	return f == EndedLaunch || f == UnjoinedLaunch || f == UnreadyLaunch
}

// Limits of SQS that faults of the queue itself have to keep.
const (
	// DeletedFor is how long a name is taken after its queue was deleted:
	// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_DeleteQueue.html.
	DeletedFor = 60 * time.Second
	// ShortestRetention is the shortest time that a queue can keep messages:
	// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html.
	ShortestRetention = 60 * time.Second
)

// ErrorCode is an error of SQS, as its JSON protocol names it, or of EC2.
type ErrorCode string

// The error codes that a fault can have. The errors themselves are in framework/proxy.
const (
	ThrottlingException    ErrorCode = "ThrottlingException"
	RequestThrottled       ErrorCode = "RequestThrottled"
	AccessDenied           ErrorCode = "AccessDeniedException"
	ExpiredToken           ErrorCode = "ExpiredTokenException"
	QueueDoesNotExist      ErrorCode = "QueueDoesNotExist"
	InternalError          ErrorCode = "InternalError"
	ReceiptHandleIsInvalid ErrorCode = "ReceiptHandleIsInvalid"

	InsufficientInstanceCapacity ErrorCode = "InsufficientInstanceCapacity"
	MaxSpotInstanceCountExceeded ErrorCode = "MaxSpotInstanceCountExceeded"
	VcpuLimitExceeded            ErrorCode = "VcpuLimitExceeded"
	SpotMaxPriceTooLow           ErrorCode = "SpotMaxPriceTooLow"
)

// ErrorCodes lists every error code.
func ErrorCodes() []ErrorCode {
	var out []ErrorCode
	for _, k := range FaultKinds() {
		out = append(out, k.Codes...)
	}
	return out
}
