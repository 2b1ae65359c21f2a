package history

import (
	"cmp"
	"time"
)

// Kind names what an event reports. The list is closed: a reader of an older or
// newer history meets an unknown kind only by ignoring it on purpose.
type Kind string

// What the run itself did.
const (
	RunPhase  Kind = "run.phase"  // Key: arrange, record, steps, settle, restore
	RunError  Kind = "run.error"  // Note: what broke in the harness; such a history is never a pass
	RunEnded  Kind = "run.ended"  // the last event of a complete history
	RunBeside Kind = "run.beside" // Key: a scenario played at the same time; Node, Pod (a namespace), Notice or Message: what of it is that one's
	RBACRule  Kind = "rbac.rule"  // Key: a role of the handler's; Action: verbs, Reason: group/resources or URLs; all by comma
	RBACUsed  Kind = "rbac.used"  // Owner: the handler's user; Action: a verb, Reason: group/resource or a URL; Numbers: requests, from the handler's installation on
	NodeRole  Kind = "node.role"  // Key: the scenario's name for Node (Instance)
	// NodePrepared: something that the drill put on the node before it began, as an operator
	// does. Node; Action: cordon, taint, label or annotation; Key; Reason: its effect or value.
	NodePrepared Kind = "node.prepared"
	// OperatorActed: what the run did to a node, as an operator or the cloud does. Key: the
	// step's name, if it has one; Node; Reason: uncordon, delete-node, rejoin,
	// rejoin-without-provider-id, stop-kubelet or drain.
	OperatorActed Kind = "operator.acted"
	OperatorSaid  Kind = "operator.said" // Node; Reason: drain; Note: a line that kubectl prints
	Deployed      Kind = "deployed"      // Key: a DaemonSet that the run created in the middle of the drill
	NoticePut     Kind = "notice.put"    // Key: the step's name; Notice: EventBridge id; Node, Instance; Until: its deadline
	MessagePut    Kind = "message.put"   // Key: the step's name; Message: SQS id; put straight into the queue
	Reclaimed     Kind = "reclaimed"     // Node, Instance: its container was killed without warning; Numbers: took (s)
	NodeShutdown  Kind = "node.shutdown" // Node, Instance: its operating system was asked to power off; Reclaimed follows when it is off
	AwaitDone     Kind = "await.done"    // Key: what was awaited
	AwaitLate     Kind = "await.late"    // Key: what was awaited and did not come in time
	Restored      Kind = "restored"      // every node Ready, schedulable, untainted; Note says what had to be repaired
	QueueDepth    Kind = "queue.depth"   // Numbers: visible, invisible; at the end of recording
	// What became of the instances that were launched for the cluster, beside its fixed workers.
	InstanceLaunched Kind = "instance.launched" // Instance; Key: its type; Reason: its zone; Owner: NodePool/… that it was launched for
	InstanceJoined   Kind = "instance.joined"   // Instance, Node: its kubelet registered; Numbers: took (s, from when the launch was seen)
	InstanceFailed   Kind = "instance.failed"   // Instance, Node; Note: why it did not become a node
	InstanceEnded    Kind = "instance.ended"    // Instance, Node: it was terminated, and its container killed
	BudgetSet        Kind = "budget.set"        // Key: whose PodDisruptionBudget; Reason: the step's name, empty for what the drill began with; Numbers: min_available of the one that is left, or set
)

// What the watcher saw in the cluster. The objects that exist when recording
// starts come first as *.present.
const (
	NodePresent    Kind = "node.present" // Key: capacity (spot, on-demand, control-plane); Instance
	NodeCordoned   Kind = "node.cordoned"
	NodeUncordoned Kind = "node.uncordoned"
	NodeTainted    Kind = "node.tainted" // Key: taint key; Reason: effect
	NodeUntainted  Kind = "node.untainted"
	NodeReady      Kind = "node.ready"
	NodeNotReady   Kind = "node.notready" // Reason: False or Unknown
	NodeDeleted    Kind = "node.deleted"
	// Labels and annotations that change; those that are there at first are not on record.
	NodeLabelled    Kind = "node.labelled"    // Key, Reason: the value; Note: the one that it replaced, quoted
	NodeUnlabelled  Kind = "node.unlabelled"  // Key; Note: the value that it had, quoted
	NodeAnnotated   Kind = "node.annotated"   // as node.labelled
	NodeUnannotated Kind = "node.unannotated" // as node.unlabelled

	PodPresent     Kind = "pod.present"   // Node, Owner, IP; as pod.created; existed when recording started
	PodCreated     Kind = "pod.created"   // Owner; Key: its label app; Numbers: priority, grace (s, its own), tolerates_cordon (1, or left out); Note: keys of the NoSchedule taints that it tolerates, by comma, * for all
	PodScheduled   Kind = "pod.scheduled" // Node
	PodReady       Kind = "pod.ready"     // IP
	PodNotReady    Kind = "pod.notready"
	PodEvicted     Kind = "pod.evicted"     // the DisruptionTarget condition; Reason: EvictionByEvictionAPI, …
	PodTerminating Kind = "pod.terminating" // deletionTimestamp set, or its grace period cut short; Numbers: grace (s)
	PodSignalled   Kind = "pod.sigterm"     // a CoreDNS pod logged SIGTERM
	PodLameduck    Kind = "pod.lameduck"    // a CoreDNS pod logged that its lameduck begins; Numbers: seconds
	PodExited      Kind = "pod.exited"      // every container terminated; Numbers: exit_code, the highest, if not 0
	PodFinished    Kind = "pod.finished"    // its containers have ended for good; Reason: Succeeded or Failed
	PodRestarted   Kind = "pod.restarted"   // a container was started again; Reason: why it had ended; Numbers: restarts, exit_code
	PodDeleted     Kind = "pod.deleted"     // gone from the API

	EndpointReady       Kind = "endpoint.ready"       // IP, Pod: an address of the EndpointSlices of Key, of kube-dns if it is empty
	EndpointNotReady    Kind = "endpoint.notready"    // Reason: serving=… terminating=…
	EndpointTerminating Kind = "endpoint.terminating" // Reason: serving or not-serving
	EndpointGone        Kind = "endpoint.gone"

	// A watch that breaks misses nothing as long as it can be resumed, but what happened
	// meanwhile is seen late.
	WatchLost Kind = "watch.lost" // Key: nodes, pods, …; Said: when the watch last delivered something
	WatchBack Kind = "watch.back" // Key; what happened meanwhile is on record before it or right after it, unless Note says otherwise

	ClusterEvent Kind = "event" // Key: object kind; Node or Pod: object; Reason, Note; Owner: reporting component
)

// What went through the recording proxy between handler and SQS. Of an sqs.call, Reason
// is the error's code, Note what the proxy says of it, Message and Notice whose
// visibility it changed, and Numbers took (s), of a receive also messages and polls.
const (
	SQSCall     Kind = "sqs.call"    // Action, Status; Key, Account: the queue; Owner: ProxyOwner or empty; IP: the client's; one for each API call
	SQSReceived Kind = "sqs.receive" // Message, Notice, IP: the client's; one for each message handed out
	SQSDeleted  Kind = "sqs.delete"  // Message, Notice
)

// LifecycleActed is a call about a lifecycle hook of Auto Scaling, which the proxy answered in its
// place. Instance; Key: the hook; Action: CompleteLifecycleAction or
// RecordLifecycleActionHeartbeat; Reason: CONTINUE or ABANDON; Note: the token.
const LifecycleActed Kind = "lifecycle.acted"

// SecondHandler is the By of what a second handler did, beside the one under test. It is also the
// access key of that one's AWS credentials, by which the proxy knows it.
const SecondHandler = "second"

// ProxyOwner is the Owner of an event that reports a call the proxy made for
// itself. Such a call is no action of the handler's.
const ProxyOwner = "proxy"

// What the recording proxy did wrong because the scenario required it.
const (
	FaultBegun Kind = "fault.begun" // Key: the step's name; Reason: its type
	FaultHit   Kind = "fault.hit"   // Key, Reason; Action: the call that it hit; Message, Notice: what was delivered twice; Resource and so on: as of an api.call
	FaultEnded Kind = "fault.ended" // Key; Reason: time, count or cleared
)

// What was done to the handler itself.
const (
	HandlerDisturbed Kind = "handler.disturbed"  // Key: the step's name; Reason: kill, update, …; Pod: one for each pod that it was done to
	HandlerLeftAlone Kind = "handler.left-alone" // Key, Reason; Numbers: dropped (packets of one that was cut off)
)

// HandlerReconfigured says that the handler was configured so that it removes the Node. Key:
// the step's name; Reason: the feature that it is for; one event for each node, and one
// without a node if it removes none.
const HandlerReconfigured Kind = "handler.reconfigured"

// HandlerWrote is a change of a Node object, or the deletion of an object that the
// handler has for the node, as the API server's audit log has it. Owner: the handler's
// user; Key: the handler's pod, without its namespace; Action: the verb; Node; Reason:
// which object, if it is not the Node; Said: when it was requested.
const HandlerWrote Kind = "handler.wrote"

// HandlerTook is an eviction or deletion of a pod that the API server did for the
// handler, as its audit log has it. Owner: the handler's user; Key: the handler's pod,
// without its namespace; Action: evict, delete or deletecollection; Pod, of a collection
// only its namespace with a slash; Said: when it was requested.
const HandlerTook Kind = "handler.took"

// AuditRead says that every change that the handler requested of the API server is on
// record, as handler.wrote and handler.took: what is not was done by somebody else.
// Owner: the handler's user.
const AuditRead Kind = "audit.read"

// What a prober said of itself. Node: where it was.
const (
	ProberStarted Kind = "prober.started" // Numbers: rate per target, clock_bound (s)
	ProberEnded   Kind = "prober.ended"   // Numbers: asked, unsent, dropped (answers), late_p99 (s), late_max (s); without Echo
)

// What is recorded of a cluster that is not spotdrill's own. A prober is named by its node; the
// second on a node by node#2, and so on.
const (
	// ObservationBegun: DNS has answered everything for a while, and what is observed
	// begins. Note: the command that runs; empty if there is none.
	ObservationBegun Kind = "observation.begun"
	// ObservationEnded: the command has ended, or the time is over. Numbers: took (s),
	// exit_code (of the command).
	ObservationEnded Kind = "observation.ended"
	// TargetFound: what a prober queries as the DNS service. Node: the prober; Pod; IP; Key:
	// kube-dns or node-local-dns; Note: the names that are queried.
	TargetFound Kind = "target.found"
	// ProberResumed: the record of a prober goes on over another connection, from where it was
	// read. Node; Pod; Note: why the former one ended; Numbers: took (s, without a connection).
	ProberResumed Kind = "prober.resumed"
	// ProberBroke: the record of a prober ended without its summary. Node; Pod; Note: why.
	ProberBroke Kind = "prober.broke"
)

// ControlChosen reports which pod is asked directly: of CoreDNS or, with Key, of the workload
// of that Service. Pod, IP.
const ControlChosen Kind = "control.chosen"

// DNSDisrupted reports what the run did to CoreDNS. Reason: delete, kill, restart,
// drain, scale; Node: whose pods, empty for all; Numbers: replicas.
const DNSDisrupted Kind = "dns.disrupted"

// The upgrade of an add-on. Key: its name; Action: the ConflictMode.
const (
	AddOnUpgrading Kind = "addon.upgrading" // it begins
	// AddOnUpgraded: it is over, and its pods are replaced. Numbers: took (s).
	AddOnUpgraded Kind = "addon.upgraded"
	// AddOnRefused: nothing was changed. Note: the fields that others own.
	AddOnRefused Kind = "addon.refused"
	// AddOnSet: its values were set by hand again, and its pods are replaced; without Action.
	// Numbers: took (s).
	AddOnSet Kind = "addon.set"
)

// ClusterGrown reports that virtual nodes join the cluster, or leave it. Numbers: virtual_nodes,
// cores (of all of them).
const ClusterGrown Kind = "cluster.grown"

// CorefileRead reports that a pod of CoreDNS has read a Corefile that was changed while it ran,
// whether it took it or refused it. Pod; Numbers: took (s, from the change on).
const CorefileRead Kind = "corefile.read"

// FlowsRecorded ends the record of a prober's flows. Node: where it was. Numbers:
// flows, overflows (how often events were lost because they came too fast),
// insert_failed (packets that the kernel dropped, of any flow, because it could not
// make an entry), resolution (s, how late a flow's times may be), clock_bound (s),
// cpu (s, what recording used).
const FlowsRecorded Kind = "flows.recorded"

// What the kernel accounts for of CoreDNS, the handler, the probers and kube-proxy beside
// them. Pod: whose process it was.
const (
	// ProcessorWaited: a thread was ready to run and had no processor, until At. Numbers:
	// waited (s), ran (s, all threads of the process meanwhile), throttled (s, by the
	// process's own CPU limit; left out if unknown), resolution (s).
	ProcessorWaited Kind = "processor.waited"
	// DatagramsDropped: the buffer of the receiving socket was full. Numbers: dropped, within
	// (s, before At).
	DatagramsDropped Kind = "datagrams.dropped"
	// MemoryUsed: the memory of the process, and of the pod's other processes. Only the
	// handler's is recorded. Numbers: bytes.
	MemoryUsed Kind = "memory.used"
	// WaitsRecorded ends the record of all these. Note: why there is none. Numbers: samples,
	// late_max (s, the longest time between two samples), processes, cpu (s, that recording
	// used).
	WaitsRecorded Kind = "waits.recorded"
)

// MemoryInterval is the time from one MemoryUsed of a pod to the next.
const MemoryInterval = 10 * time.Second

// InsertsFailed reports that the kernel dropped packets because it could not make their connection
// tracking entries, of whichever flow. Node: where. Numbers: insert_failed, within (s,
// before At).
const InsertsFailed Kind = "flows.insert-failed"

// Event is one thing that happened. At is when we saw it; Said is when the one
// who reported it says that it happened. Fields that a kind does not use stay
// empty; the comments at the kinds say which it uses.
type Event struct {
	// Seq is the event's number in its history, from 1. Verdicts cite it.
	Seq  int           `json:"seq"`
	At   time.Duration `json:"at"` // nanoseconds since the base
	Kind Kind          `json:"kind"`

	Said  *time.Duration `json:"said,omitempty"`
	Until *time.Duration `json:"until,omitempty"`

	Key      string `json:"key,omitempty"`
	Node     string `json:"node,omitempty"`
	Instance string `json:"instance,omitempty"`
	Pod      string `json:"pod,omitempty"` // namespace/name
	UID      string `json:"uid,omitempty"`
	Owner    string `json:"owner,omitempty"` // kind/name of the pod's controller; Node/… for mirror pods
	IP       string `json:"ip,omitempty"`

	Notice  string `json:"notice,omitempty"`  // id of the EventBridge envelope
	Message string `json:"message,omitempty"` // SQS message id
	Action  string `json:"action,omitempty"`  // SQS API action, or verb of the Kubernetes API
	Account string `json:"account,omitempty"` // AWS account of the queue

	Resource string `json:"resource,omitempty"` // of a call to the API server: group/resource or group/resource/subresource, or a URL's path
	Object   string `json:"object,omitempty"`   // its name or namespace/name, if it is neither a node nor a pod
	Fault    string `json:"fault,omitempty"`    // name of the fault that hit the call

	By string `json:"by,omitempty"` // SecondHandler, if it is not the handler under test that did it

	Status int `json:"status,omitempty"` // HTTP status

	Reason  string  `json:"reason,omitempty"`
	Note    string  `json:"note,omitempty"`
	Numbers Numbers `json:"numbers,omitempty"`
}

// Meta is the first line of a history: what was run, and where.
type Meta struct {
	Format   string    `json:"format"` // FormatV1
	Scenario string    `json:"scenario"`
	Set      string    `json:"set"`     // fast or full
	Attempt  int       `json:"attempt"` // from 1
	Base     time.Time `json:"base"`    // wall clock time of offset 0
	Handler  Handler   `json:"handler"`
	// Second is a second handler beside the one under test; nil if there is none.
	Second *Handler `json:"second_handler,omitempty"`
	// Environment holds versions of every part: kubernetes, engine, kernel, …
	Environment map[string]string `json:"environment,omitempty"`
}

// FormatV1 is the version of the history's format.
const FormatV1 = "spotdrill.dev/history/v1"

// Handler is what a judge must know of the handler under test.
type Handler struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Unschedulable and Taint are the marks that the handler puts on a node.
	Unschedulable bool   `json:"unschedulable"`
	Taint         string `json:"taint,omitempty"` // key, without effect
	// DeletesNode reports whether the handler removes the Node object itself.
	DeletesNode bool `json:"deletes_node,omitempty"`
	// Deployment or DaemonSet is the NAMESPACE/NAME that the handler's pods belong to.
	Deployment string `json:"deployment,omitempty"`
	DaemonSet  string `json:"daemon_set,omitempty"`
	// Reads is where it reads notices; empty if from the queue.
	Reads NoticeSource `json:"reads,omitempty"`
	// DrainEvent is the reason of the Kubernetes event on the node that says that
	// a drain starts; empty if the handler announces none.
	DrainEvent string `json:"drain_event,omitempty"`
	// Reporter is the component that the handler's Kubernetes events name as their
	// reporter; empty if its description does not say.
	Reporter string `json:"reporter,omitempty"`
	// CommitPoint is when it may delete a message.
	CommitPoint CommitPoint `json:"commit_point,omitempty"`
	// SQSActions are all that it may call.
	SQSActions []string `json:"sqs_actions,omitempty"`
	// Deviations are the scenarios that it is known not to pass, and why.
	Deviations map[string]string `json:"deviations,omitempty"`
	// Keeps are the scenarios in which it leaves what it cannot use in the queue, and
	// why.
	Keeps map[string]string `json:"keeps,omitempty"`
}

// Workload is the NAMESPACE/NAME that the handler's pods belong to; empty if it has none.
func (h Handler) Workload() string { return cmp.Or(h.Deployment, h.DaemonSet) }

// ReadsMetadata reports whether the handler reads notices from the metadata of its instance.
func (h Handler) ReadsMetadata() bool { return h.Reads == FromMetadata }
