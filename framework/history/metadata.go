package history

// MetadataFaultType is a way in which the instance metadata service goes wrong.
type MetadataFaultType FaultType

// Unauthorized is a fault of the instance metadata service: no session is valid (HTTP 401).
const Unauthorized FaultType = "unauthorized"

// MetadataFaultTypes lists every one. Those that the queue has too mean the same.
func MetadataFaultTypes() []MetadataFaultType {
	var out []MetadataFaultType
	for _, t := range []FaultType{Delay, ServerError, Reset, Unauthorized} {
		out = append(out, MetadataFaultType(t))
	}
	return out
}
