package history

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
