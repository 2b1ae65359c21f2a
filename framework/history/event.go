// Package history is what a drill leaves behind on disk: the events that were seen,
// every DNS query with its outcome, and the flows that they took, on one clock.
//
// It is a leaf: it knows nothing of clusters, queues or verdicts, so that a
// history can be judged again years later by a newer set of checks.
package history

import (
	"cmp"
	"slices"
	"time"
)

// Kind names what an event reports. The list is closed: a reader of an older or
// newer history meets an unknown kind only by ignoring it on purpose.
type Kind string

// Event is one thing that happened. At is when we saw it; Said is the time that
// its source reports for it. Fields that a kind does not use stay
// empty; the comments at the constructors show which it uses.
//
// Only the constructors of this package make events, and only its readers know what the texts of a kind
// mean: elsewhere, a literal does not compile, since its fields are of an embedded type that has no name
// there, and neither does the use of Text, which is ambiguous.
type Event struct{ fields }

type fields struct {
	// Seq is the event's number in its history, from 1. Verdicts cite it.
	Seq  int           `json:"seq"`
	At   time.Duration `json:"at"` // nanoseconds since the base
	Kind Kind          `json:"kind"`

	Said  *time.Duration `json:"said,omitempty"`
	Until *time.Duration `json:"until,omitempty"`

	key
	Node     string `json:"node,omitempty"`
	Instance string `json:"instance,omitempty"`
	Pod      string `json:"pod,omitempty"` // namespace/name
	UID      string `json:"uid,omitempty"`
	Owner    string `json:"owner,omitempty"` // kind/name of the pod's controller; Node/… for mirror pods
	IP       string `json:"ip,omitempty"`

	Notice  string `json:"notice,omitempty"`  // id of the EventBridge envelope
	Message string `json:"message,omitempty"` // SQS message id
	Action  string `json:"action,omitempty"`  // SQS API action, or verb of the Kubernetes API
	Account string `json:"account,omitempty"` // AWS account of the queue

	Resource string `json:"resource,omitempty"` // of a call to the API server: group/resource or group/resource/subresource, or a URL's path
	Object   string `json:"object,omitempty"`   // its name or namespace/name, if it is neither a node nor a pod
	Fault    string `json:"fault,omitempty"`    // name of the fault that hit the call

	By string `json:"by,omitempty"` // OtherHandler, if it is not the handler under test that did it

	Status int `json:"status,omitempty"` // HTTP status

	reason
	Note    string  `json:"note,omitempty"`
	Numbers Numbers `json:"numbers,omitempty"`
}

// key and reason are what the event is about, and why it happened, in the words of its kind.
type (
	key struct {
		Text string `json:"key,omitempty"`
	}
	reason struct {
		Text string `json:"reason,omitempty"`
	}
)

// Words are what the event has of text, without its kind: what it is about, and why.
func (e Event) Words() []string {
	words := []string{e.key.Text, e.Pod, e.Node, e.IP, e.Action, e.Resource, e.Object, e.reason.Text, e.Note}
	return slices.DeleteFunc(words, func(word string) bool { return word == "" })
}

// Meta is the first line of a history: what was run, and where.
type Meta struct {
	Format   string    `json:"format"` // FormatV1
	Scenario string    `json:"scenario"`
	Set      string    `json:"set"`     // fast or full
	Attempt  int       `json:"attempt"` // from 1
	Base     time.Time `json:"base"`    // wall clock time of offset 0
	Handler  Handler   `json:"handler"`
	// Other is another handler next to the one under test; nil if there is none.
	Other *Handler `json:"second_handler,omitempty"`
	// Environment holds versions of every part: kubernetes, engine, kernel, …
	Environment map[string]string `json:"environment,omitempty"`
}

// FormatV1 is the version of the history's format.
const FormatV1 = "spotdrill.dev/history/v1"

// Handler is what a judge must know of the handler under test.
type Handler struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Unschedulable and Taint are the marks that the handler puts on a node.
	Unschedulable bool   `json:"unschedulable"`
	Taint         string `json:"taint,omitempty"` // key, without effect
	// DeletesNode reports whether the handler removes the Node object itself.
	DeletesNode bool `json:"deletes_node,omitempty"`
	// Deployment or DaemonSet is the NAMESPACE/NAME that the handler's pods belong to.
	Deployment string `json:"deployment,omitempty"`
	DaemonSet  string `json:"daemon_set,omitempty"`
	// Reads is where it reads notices; empty if from the queue.
	Reads NoticeSource `json:"reads,omitempty"`
	// DrainEvent is the reason of the Kubernetes event on the node that reports that
	// a drain starts; empty if the handler announces none.
	DrainEvent string `json:"drain_event,omitempty"`
	// Reporter is the component that the handler's Kubernetes events name as their
	// reporter; empty if its description does not show.
	Reporter string `json:"reporter,omitempty"`
	// CommitPoint is when it may delete a message.
	CommitPoint CommitPoint `json:"commit_point,omitempty"`
	// SQSActions are all that it may call.
	SQSActions []string `json:"sqs_actions,omitempty"`
	// Deviations are the scenarios that it is known not to pass, and why.
	Deviations map[string]string `json:"deviations,omitempty"`
	// Keeps are the scenarios in which it leaves what it cannot use in the queue, and
	// why.
	Keeps map[string]string `json:"keeps,omitempty"`
}

// Workload is the NAMESPACE/NAME that the handler's pods belong to; empty if it has none.
func (h Handler) Workload() string { return cmp.Or(h.Deployment, h.DaemonSet) }

// ReadsMetadata reports whether the handler reads notices from the metadata of its instance.
func (h Handler) ReadsMetadata() bool { return h.Reads == FromMetadata }
