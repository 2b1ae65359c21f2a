package history

// MetadataRead is the requests of a node for one path of its instance's metadata that had the same
// result, as the stand-in for the instance metadata service counted them. Node, Instance; Action:
// the HTTP method; Key: the path below /latest/; Status, 0 if no answer arrived; Reason: the
// type of the notice that the answer announced, if any; Fault; Until: the last of them; Numbers:
// requests.
const MetadataRead Kind = "metadata.read"

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
