package history

// What was done wrong because the scenario required it.
const (
	FaultBegun Kind = "fault.begun"
	FaultHit   Kind = "fault.hit"
	FaultEnded Kind = "fault.ended"
)

// The constructors of these events.
var (
	// NewFaultBegun reports that a fault begins.
	NewFaultBegun = event2(FaultBegun, about, typed[FaultType](why))
	// NewFaultHit reports a call that a fault hit. Action: the call; Message, Notice: what was delivered twice;
	// Resource and so on: as of an APICall.
	NewFaultHit = event2(FaultHit, about, typed[FaultType](why))
	// NewFaultEnded reports why a fault ended: time, count or cleared.
	NewFaultEnded = event2(FaultEnded, about, why)
)

// FaultType is the type of a FaultBegun or FaultHit.
func (e Event) FaultType() FaultType { return FaultType(e.reasonOf(FaultBegun, FaultHit)) }

// FaultEnd is why a FaultEnded ended.
func (e Event) FaultEnd() string { return e.reasonOf(FaultEnded) }
