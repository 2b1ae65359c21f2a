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
