package history

import (
	"slices"
	"time"
)

// Detail sets a field of an event that its kind does not require. The constructors take any number.
type Detail func(*Event)

// At is when the event was seen, if that is not when it is recorded.
func At(t time.Duration) Detail { return func(e *Event) { e.At = t } }

// Said is when the one who reported the event reports that it happened.
func Said(t time.Duration) Detail { return func(e *Event) { e.Said = &t } }

// Until is when what the event reports ends, such as the deadline of a notice.
func Until(t time.Duration) Detail { return func(e *Event) { e.Until = &t } }

// Node is the name of the node that the event is about.
func Node(name string) Detail { return func(e *Event) { e.Node = name } }

// Instance is the id of the instance that the event is about.
func Instance(id string) Detail { return func(e *Event) { e.Instance = id } }

// Pod is the pod that the event is about, as namespace/name.
func Pod(name string) Detail { return func(e *Event) { e.Pod = name } }

// UID is the UID of the pod.
func UID(uid string) Detail { return func(e *Event) { e.UID = uid } }

// Owner is the controller of the pod, as kind/name, or the user or component behind the event.
func Owner(name string) Detail { return func(e *Event) { e.Owner = name } }

// IP is the address of the pod, the endpoint or the client.
func IP(address string) Detail { return func(e *Event) { e.IP = address } }

// Notice is the id of the envelope of a notice.
func Notice(id string) Detail { return func(e *Event) { e.Notice = id } }

// Message is the id of a message of SQS.
func Message(id string) Detail { return func(e *Event) { e.Message = id } }

// Action is the action of an API, or the verb of a request.
func Action(name string) Detail { return func(e *Event) { e.Action = name } }

// Account is the AWS account of the queue.
func Account(id string) Detail { return func(e *Event) { e.Account = id } }

// Resource is what a request to the API server was about, or a path.
func Resource(name string) Detail { return func(e *Event) { e.Resource = name } }

// Object is the object of a request, if that is neither a node nor a pod.
func Object(name string) Detail { return func(e *Event) { e.Object = name } }

// Fault is the name of the fault that hit the call.
func Fault(name string) Detail { return func(e *Event) { e.Fault = name } }

// By is who did it: UnderTest or OtherHandler.
func By(who string) Detail { return func(e *Event) { e.By = who } }

// Status is the HTTP status of the answer.
func Status(code int) Detail { return func(e *Event) { e.Status = code } }

// Note is a remark for people.
func Note(text string) Detail { return func(e *Event) { e.Note = text } }

// With has the figures of the event.
func With(figures Numbers) Detail { return func(e *Event) { e.Numbers = figures } }

// Like has the details of another event: all that its kind does not require.
func Like(other Event) Detail {
	return func(e *Event) {
		own := e.fields
		e.fields = other.fields
		e.Kind, e.key, e.reason = own.Kind, own.key, own.reason
	}
}

// The constructors of events are a table: for each kind, the setters of the fields that it requires, in the
// order of the constructor's arguments. about and why set what the event is about, and why it happened.

func about(text string) Detail { return func(e *Event) { e.key.Text = text } }

func why(text string) Detail { return func(e *Event) { e.reason.Text = text } }

// typed is the setter of a field for words of a type.
func typed[T ~string](set func(string) Detail) func(T) Detail {
	return func(word T) Detail { return set(string(word)) }
}

func newEvent(kind Kind, with []Detail, own ...Detail) Event {
	e := Event{fields{Kind: kind}}
	for _, set := range slices.Concat(own, with) {
		set(&e)
	}
	return e
}

func event0(k Kind) func(...Detail) Event {
	return func(with ...Detail) Event { return newEvent(k, with) }
}

func event1[A any](k Kind, a func(A) Detail) func(A, ...Detail) Event {
	return func(x A, with ...Detail) Event { return newEvent(k, with, a(x)) }
}

func event2[A, B any](k Kind, a func(A) Detail, b func(B) Detail) func(A, B, ...Detail) Event {
	return func(x A, y B, with ...Detail) Event { return newEvent(k, with, a(x), b(y)) }
}

func event3[A, B, C any](k Kind, a func(A) Detail, b func(B) Detail, c func(C) Detail) func(A, B, C, ...Detail) Event {
	return func(x A, y B, z C, with ...Detail) Event { return newEvent(k, with, a(x), b(y), c(z)) }
}

func event4[A, B, C, D any](k Kind, a func(A) Detail, b func(B) Detail, c func(C) Detail, d func(D) Detail) func(A, B, C, D, ...Detail) Event {
	return func(w A, x B, y C, z D, with ...Detail) Event { return newEvent(k, with, a(w), b(x), c(y), d(z)) }
}

// keyOf is the key of an event of one of these kinds, or "".
func (e Event) keyOf(kinds ...Kind) string {
	if slices.Contains(kinds, e.Kind) {
		return e.key.Text
	}
	return ""
}

// reasonOf is the reason of an event of one of these kinds, or "".
func (e Event) reasonOf(kinds ...Kind) string {
	if slices.Contains(kinds, e.Kind) {
		return e.reason.Text
	}
	return ""
}
