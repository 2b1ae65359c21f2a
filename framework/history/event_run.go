package history

// What the run itself did.
const (
	RunPhase        Kind = "run.phase"
	RunError        Kind = "run.error"
	RunEnded        Kind = "run.ended"
	ConcurrentDrill Kind = "run.beside"
	NodeRole        Kind = "node.role"
	NodePrepared    Kind = "node.prepared"
	OperatorActed   Kind = "operator.acted"
	OperatorPrinted Kind = "operator.said"
	Deployed        Kind = "deployed"
	BudgetSet       Kind = "budget.set"
	NoticePut       Kind = "notice.put"
	MessagePut      Kind = "message.put"
	Reclaimed       Kind = "reclaimed"
	NodeShutdown    Kind = "node.shutdown"
	AwaitDone       Kind = "await.done"
	AwaitLate       Kind = "await.late"
	Restored        Kind = "restored"
)

// The constructors of these events.
var (
	// NewRunError reports what broke in the harness; such a history is never a pass.
	NewRunError = event1(RunError, Note)
	// NewRunEnded is the last event of a complete history. Its reason is the checksum, see Recorder.Close.
	// Numbers: clock_step (s).
	NewRunEnded = event0(RunEnded)
	// NewConcurrentDrill reports that a Node, the namespace Pod, a Notice or a Message belongs to a scenario that
	// is played at the same time.
	NewConcurrentDrill = event1(ConcurrentDrill, about)
	// NewNodeRole reports the scenario's name for a node. Instance: the node's.
	NewNodeRole = event2(NodeRole, about, Node)
	// NewNodePrepared reports a state in which the drill left the Node before it began, as an operator does.
	// A taint has its effect as value; a cordon has neither key nor value.
	NewNodePrepared = event3(NodePrepared, typed[Preparation](Action), about, why)
	// NewOperatorActed reports what the run did to a node, as an operator or the cloud does. The step may
	// have no name.
	NewOperatorActed = event3(OperatorActed, about, typed[Operation](why), Node)
	// NewOperatorPrinted is a line that kubectl prints during an operation.
	NewOperatorPrinted = event3(OperatorPrinted, typed[Operation](why), Node, Note)
	// NewDeployed reports a DaemonSet that the run created in the middle of the drill.
	NewDeployed = event1(Deployed, about)
	// NewBudgetSet reports the PodDisruptionBudget of a group of pods. Step is empty for what the drill began
	// with. Numbers: min_available.
	NewBudgetSet = event2(BudgetSet, why, about)
	// NewNoticePut reports a notice about a node. Notice: its id in EventBridge; Instance; Until: its deadline.
	NewNoticePut = event3(NoticePut, about, typed[NoticeType](why), Node)
	// NewMessagePut reports a message that was put straight into the queue.
	NewMessagePut = event2(MessagePut, about, Message)
	// NewReclaimed reports that the container of a node was killed without warning. Instance; Numbers: took (s).
	NewReclaimed = event1(Reclaimed, Node)
	// NewNodeShutdown reports that the operating system of a node was asked to power off. Reclaimed follows
	// when it is off. Instance.
	NewNodeShutdown = event1(NodeShutdown, Node)
	// NewAwaitDone reports that what was awaited came.
	NewAwaitDone = event1(AwaitDone, about)
	// NewAwaitLate reports that what was awaited did not come in time. Note: in which time.
	NewAwaitLate = event1(AwaitLate, about)
	// NewRestored reports that every node is Ready, schedulable and untainted. Note: what had to be repaired.
	NewRestored = event0(Restored)
)

// Begins returns the event that begins the phase.
func (p Phase) Begins(with ...Detail) Event { return newEvent(RunPhase, with, about(string(p))) }

// BegunBy reports whether the event begins the phase.
func (p Phase) BegunBy(e Event) bool { return e.Kind == RunPhase && e.Phase() == p }

// Phase is the phase that a RunPhase begins.
func (e Event) Phase() Phase { return Phase(e.keyOf(RunPhase)) }

// ConcurrentScenario is the scenario of a ConcurrentDrill.
func (e Event) ConcurrentScenario() string { return e.keyOf(ConcurrentDrill) }

// Role is the scenario's name for the node of a NodeRole.
func (e Event) Role() string { return e.keyOf(NodeRole) }

// Preparation is what kind of state a NodePrepared is; Setting has its key and value.
func (e Event) Preparation() Preparation {
	if e.Kind != NodePrepared {
		return ""
	}
	return Preparation(e.Action)
}

// Operation is what an OperatorActed did, or what an OperatorPrinted is about.
func (e Event) Operation() Operation { return Operation(e.reasonOf(OperatorActed, OperatorPrinted)) }

// DaemonSet is what a Deployed created.
func (e Event) DaemonSet() string { return e.keyOf(Deployed) }

// NoticeType is the type of the notice of a NoticePut, or of the one that a MetadataRead announced.
func (e Event) NoticeType() NoticeType { return NoticeType(e.reasonOf(NoticePut, MetadataRead)) }

// Awaited is what an AwaitDone or AwaitLate is about.
func (e Event) Awaited() string { return e.keyOf(AwaitDone, AwaitLate) }

// Step is the name of the scenario's step that the event reports, or "".
func (e Event) Step() string {
	if e.Kind == BudgetSet {
		return e.reason.Text
	}
	return e.keyOf(NoticePut, MessagePut, OperatorActed, FaultBegun, FaultHit, FaultEnded, HandlerDisturbed, HandlerLeftAlone, HandlerReconfigured)
}

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

// What was done to CoreDNS, and to the add-ons of the cluster.
const (
	DNSDisrupted   Kind = "dns.disrupted"
	CorefileRead   Kind = "corefile.read"
	AddOnUpgrading Kind = "addon.upgrading"
	AddOnUpgraded  Kind = "addon.upgraded"
	AddOnRefused   Kind = "addon.refused"
	AddOnSet       Kind = "addon.set"
)

// The constructors of these events.
var (
	// NewDNSDisrupted reports what the run did to CoreDNS. Node: whose pods, empty for all; Numbers: replicas.
	NewDNSDisrupted = event1(DNSDisrupted, typed[Disruption](why))
	// NewCorefileRead reports that a pod of CoreDNS has read a Corefile that was changed while it ran, whether
	// it took it or refused it. Numbers: took (s, from the change on).
	NewCorefileRead = event1(CorefileRead, Pod)
	// NewAddOnUpgrading reports that the upgrade of an add-on begins.
	NewAddOnUpgrading = event2(AddOnUpgrading, about, typed[ConflictMode](Action))
	// NewAddOnUpgraded reports that the upgrade is over, and its pods are replaced. Numbers: took (s).
	NewAddOnUpgraded = event2(AddOnUpgraded, about, typed[ConflictMode](Action))
	// NewAddOnRefused reports that nothing was changed. Note: the fields that others own.
	NewAddOnRefused = event2(AddOnRefused, about, typed[ConflictMode](Action))
	// NewAddOnSet reports that the values of an add-on were set by hand again, and its pods are replaced.
	// Numbers: took (s).
	NewAddOnSet = event1(AddOnSet, about)
)

// Disruption is what a DNSDisrupted did.
func (e Event) Disruption() Disruption { return Disruption(e.reasonOf(DNSDisrupted)) }

// AddOn is the add-on that the event is about.
func (e Event) AddOn() string {
	return e.keyOf(AddOnUpgrading, AddOnUpgraded, AddOnRefused, AddOnSet)
}
