package history

// What was done wrong because the scenario required it.
const (
	FaultBegun Kind = "fault.begun"
	FaultHit   Kind = "fault.hit"
	FaultEnded Kind = "fault.ended"
)

// NewFaultBegun reports that a fault begins.
func NewFaultBegun(step string, t FaultType, with ...Detail) Event {
	return newEvent(FaultBegun, step, string(t), with)
}

// NewFaultHit reports a call that a fault hit. Action: the call; Message, Notice: what was delivered twice;
// Resource and so on: as of an APICall.
func NewFaultHit(step string, t FaultType, with ...Detail) Event {
	return newEvent(FaultHit, step, string(t), with)
}

// NewFaultEnded reports why a fault ended: time, count or cleared.
func NewFaultEnded(step, why string, with ...Detail) Event {
	return newEvent(FaultEnded, step, why, with)
}

// FaultType is the type of a FaultBegun or FaultHit.
func (e Event) FaultType() FaultType { return FaultType(e.reasonOf(FaultBegun, FaultHit)) }

// FaultEnd is why a FaultEnded ended.
func (e Event) FaultEnd() string { return e.reasonOf(FaultEnded) }
