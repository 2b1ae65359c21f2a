package history

// What was done to the handler, and what it did.
const (
	HandlerDisturbed    Kind = "handler.disturbed"
	HandlerLeftAlone    Kind = "handler.left-alone"
	HandlerReconfigured Kind = "handler.reconfigured"
	HandlerWrote        Kind = "handler.wrote"
	HandlerTook         Kind = "handler.took"
	AuditRead           Kind = "audit.read"
	RBACRule            Kind = "rbac.rule"
	RBACUsed            Kind = "rbac.used"
)

// The constructors of these events.
var (
	// NewHandlerDisturbed reports what was done to the handler: one for each Pod that it was done to.
	NewHandlerDisturbed = event2(HandlerDisturbed, about, typed[Disturbance](why))
	// NewHandlerLeftAlone reports that the disturbance is over. Numbers: dropped (packets of one that was cut off).
	NewHandlerLeftAlone = event2(HandlerLeftAlone, about, typed[Disturbance](why))
	// NewHandlerReconfigured reports that the handler was configured so that it removes the Node, for the
	// feature: one event for each node, and one without a node if it removes none.
	NewHandlerReconfigured = event2(HandlerReconfigured, about, why)
	// NewHandlerWrote is a change of a Node object, or the deletion of an object that the handler has for the
	// node, as the API server's audit log has it. Object is empty for the Node itself; pod is the handler's, without
	// its namespace. Owner: the handler's user; Action: the verb; Said: when it was requested.
	NewHandlerWrote = event3(HandlerWrote, about, Node, why)
	// NewHandlerTook is an eviction or deletion of a pod that the API server did for the handler, as its audit
	// log has it. Pod is the handler's, without its namespace; taken is the other one, of a collection only its
	// namespace with a slash. Owner: the handler's user; Action: evict, delete or deletecollection; Said: when it
	// was requested.
	NewHandlerTook = event2(HandlerTook, about, Pod)
	// NewAuditRead reports that every change that the handler requested of the API server is on record, as
	// HandlerWrote and HandlerTook: what is not was done by somebody else.
	NewAuditRead = event1(AuditRead, Owner)
	// NewRBACRule is a rule of a role of the handler's. Verbs, and of: group/resources or URLs, are separated
	// by commas.
	NewRBACRule = event3(RBACRule, about, Action, why)
	// NewRBACUsed reports that the handler's user used a verb of group/resource or a URL. Numbers: requests, from
	// the handler's installation on.
	NewRBACUsed = event3(RBACUsed, Owner, Action, why)
)

// Disturbance is what was done to the handler in a HandlerDisturbed or HandlerLeftAlone.
func (e Event) Disturbance() Disturbance {
	return Disturbance(e.reasonOf(HandlerDisturbed, HandlerLeftAlone))
}

// Feature is the feature that a HandlerReconfigured is for.
func (e Event) Feature() string { return e.reasonOf(HandlerReconfigured) }

// WroteNode reports whether the event is a HandlerWrote of the Node object itself.
func (e Event) WroteNode() bool { return e.Kind == HandlerWrote && e.reason.Text == "" }

// HandlerPod is the handler's pod in a HandlerWrote or HandlerTook.
func (e Event) HandlerPod() string { return e.keyOf(HandlerWrote, HandlerTook) }

// RBACRole is the role of an RBACRule.
func (e Event) RBACRole() string { return e.keyOf(RBACRule) }

// RBACObject is what an RBACRule or RBACUsed is about. Action has the verbs.
func (e Event) RBACObject() string { return e.reasonOf(RBACRule, RBACUsed) }
