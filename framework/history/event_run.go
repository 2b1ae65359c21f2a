package history

// What the run itself did.
const (
	RunPhase      Kind = "run.phase"
	RunError      Kind = "run.error"
	RunEnded      Kind = "run.ended"
	RunBeside     Kind = "run.beside"
	NodeRole      Kind = "node.role"
	NodePrepared  Kind = "node.prepared"
	OperatorActed Kind = "operator.acted"
	OperatorSaid  Kind = "operator.said"
	Deployed      Kind = "deployed"
	BudgetSet     Kind = "budget.set"
	NoticePut     Kind = "notice.put"
	MessagePut    Kind = "message.put"
	Reclaimed     Kind = "reclaimed"
	NodeShutdown  Kind = "node.shutdown"
	AwaitDone     Kind = "await.done"
	AwaitLate     Kind = "await.late"
	Restored      Kind = "restored"
)

// Begins returns the event that begins the phase.
func (p Phase) Begins(with ...Detail) Event { return newEvent(RunPhase, string(p), "", with) }

// BegunBy reports whether the event begins the phase.
func (p Phase) BegunBy(e Event) bool { return e.Kind == RunPhase && e.Phase() == p }

// Phase is the phase that a RunPhase begins.
func (e Event) Phase() Phase { return Phase(e.keyOf(RunPhase)) }

// NewRunError reports what broke in the harness; such a history is never a pass.
func NewRunError(what string, with ...Detail) Event {
	return newEvent(RunError, "", "", with, Note(what))
}

// NewRunEnded is the last event of a complete history.
func NewRunEnded(with ...Detail) Event { return newEvent(RunEnded, "", "", with) }

// NewRunBeside reports that a Node, the namespace Pod, a Notice or a Message belongs to a scenario that
// is played at the same time.
func NewRunBeside(scenario string, what ...Detail) Event {
	return newEvent(RunBeside, scenario, "", what)
}

// Beside is the scenario of a RunBeside.
func (e Event) Beside() string { return e.keyOf(RunBeside) }

// NewNodeRole reports the scenario's name for a node. Instance: the node's.
func NewNodeRole(role, node string, with ...Detail) Event {
	return newEvent(NodeRole, role, "", with, Node(node))
}

// Role is the scenario's name for the node of a NodeRole.
func (e Event) Role() string { return e.keyOf(NodeRole) }

// NewNodePrepared reports a state in which the drill left the Node before it began, as an operator does.
// A taint has its effect as value; a cordon has neither key nor value.
func NewNodePrepared(what Preparation, key, value string, with ...Detail) Event {
	return newEvent(NodePrepared, key, value, with, Action(string(what)))
}

// Preparation is what kind of state a NodePrepared is; Setting has its key and value.
func (e Event) Preparation() Preparation {
	if e.Kind != NodePrepared {
		return ""
	}
	return Preparation(e.Action)
}

// NewOperatorActed reports what the run did to a node, as an operator or the cloud does. The step may
// have no name.
func NewOperatorActed(step string, o Operation, node string, with ...Detail) Event {
	return newEvent(OperatorActed, step, string(o), with, Node(node))
}

// NewOperatorSaid is a line that kubectl prints during an operation.
func NewOperatorSaid(o Operation, node, line string, with ...Detail) Event {
	return newEvent(OperatorSaid, "", string(o), with, Node(node), Note(line))
}

// Operation is what an OperatorActed did, or what an OperatorSaid is about.
func (e Event) Operation() Operation { return Operation(e.reasonOf(OperatorActed, OperatorSaid)) }

// NewDeployed reports a DaemonSet that the run created in the middle of the drill.
func NewDeployed(daemonSet string, with ...Detail) Event {
	return newEvent(Deployed, daemonSet, "", with)
}

// DaemonSet is what a Deployed created.
func (e Event) DaemonSet() string { return e.keyOf(Deployed) }

// NewBudgetSet reports the PodDisruptionBudget of a group of pods. Step is empty for what the drill began
// with. Numbers: min_available.
func NewBudgetSet(step, group string, with ...Detail) Event {
	return newEvent(BudgetSet, group, step, with)
}

// NewNoticePut reports a notice about a node. Notice: its id in EventBridge; Instance; Until: its deadline.
func NewNoticePut(step string, t NoticeType, node string, with ...Detail) Event {
	return newEvent(NoticePut, step, string(t), with, Node(node))
}

// NoticeType is the type of the notice of a NoticePut, or of the one that a MetadataRead announced.
func (e Event) NoticeType() NoticeType { return NoticeType(e.reasonOf(NoticePut, MetadataRead)) }

// NewMessagePut reports a message that was put straight into the queue.
func NewMessagePut(step, message string, with ...Detail) Event {
	return newEvent(MessagePut, step, "", with, Message(message))
}

// NewReclaimed reports that the container of a node was killed without warning. Instance; Numbers: took (s).
func NewReclaimed(node string, with ...Detail) Event {
	return newEvent(Reclaimed, "", "", with, Node(node))
}

// NewNodeShutdown reports that the operating system of a node was asked to power off. Reclaimed follows
// when it is off. Instance.
func NewNodeShutdown(node string, with ...Detail) Event {
	return newEvent(NodeShutdown, "", "", with, Node(node))
}

// NewAwaitDone reports that what was awaited came.
func NewAwaitDone(what string, with ...Detail) Event { return newEvent(AwaitDone, what, "", with) }

// NewAwaitLate reports that what was awaited did not come in time. Note: in which time.
func NewAwaitLate(what string, with ...Detail) Event { return newEvent(AwaitLate, what, "", with) }

// Awaited is what an AwaitDone or AwaitLate is about.
func (e Event) Awaited() string { return e.keyOf(AwaitDone, AwaitLate) }

// NewRestored reports that every node is Ready, schedulable and untainted. Note: what had to be repaired.
func NewRestored(with ...Detail) Event { return newEvent(Restored, "", "", with) }

// Step is the name of the scenario's step that the event reports, or "".
func (e Event) Step() string {
	if e.Kind == BudgetSet {
		return e.reason.Text
	}
	return e.keyOf(NoticePut, MessagePut, OperatorActed, FaultBegun, FaultHit, FaultEnded, HandlerDisturbed, HandlerLeftAlone, HandlerReconfigured)
}
