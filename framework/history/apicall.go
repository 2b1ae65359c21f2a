package history

// What went through the recording proxy between handler and API server. All of them have
// Action (the verb, in the terms of RBAC), Resource, the object as Node, Pod or Object, and
// IP: which client called. Nothing else of a request is recorded, and no header.
const (
	// APICall is one call. At is when it was answered, of a watch when it began. Status is
	// the HTTP status of the API server or of the fault, 0 for none; Fault: which fault hit
	// it; Reason: of a write to a node, the marks that it sets, see Marks; Note: what the
	// proxy says of it; Owner: ProxyOwner if the proxy itself failed. Numbers: took (s),
	// retry_after (s).
	APICall Kind = "api.call"
	// APIFolded are more calls that are the same in all of that, in one second, than the
	// history needs. Numbers: calls, within (s, before At).
	APIFolded Kind = "api.folded"
	// APIWatching is a watch that was running when recording began.
	APIWatching Kind = "api.watching"
	// APIRecorded is the end of the record: calls after At are not on it.
	APIRecorded Kind = "api.recorded"
)

// The marks that a write to a node sets, in the Reason of an APICall, by comma: a cordon is
// MarkUnschedulable, a taint its key. MarksUnknown if the proxy could not read the write.
const (
	MarkUnschedulable = "unschedulable"
	MarksUnknown      = "unknown"
)

// Resources of the API server that checks refer to, as in an event's Resource.
const (
	NodesResource     = "/nodes"
	PodsResource      = "/pods"
	EvictionsResource = "/pods/eviction"
	LeasesResource    = "coordination.k8s.io/leases"
)

// More fault types, of the API server.
const (
	Conflict   FaultType = "conflict"    // calls are refused: HTTP 409
	Denied     FaultType = "denied"      // calls are refused as by an admission webhook: HTTP 403
	WatchEnded FaultType = "watch-ended" // the server ends watches, as it does after some minutes
)

// APIFaultType is a way in which the API server goes wrong.
type APIFaultType FaultType

// APIFaultTypes lists every one. Those that the queue has too mean the same.
func APIFaultTypes() []APIFaultType {
	var out []APIFaultType
	for _, t := range []FaultType{Delay, Throttle, ServerError, Conflict, Denied, Reset, BlackHole, WatchEnded, LostAnswer} {
		out = append(out, APIFaultType(t))
	}
	return out
}
