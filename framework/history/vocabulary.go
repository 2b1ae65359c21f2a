package history

import (
	"strings"
	"time"
)

// The words that a scenario, a handler's description and a history share. Each
// closed list stands here and nowhere else.

// The capacity of a node. CapacityLabel is Karpenter's label for the capacity type, the first two.
const (
	Spot         = "spot"
	OnDemand     = "on-demand"
	ControlPlane = "control-plane"

	CapacityLabel = "karpenter.sh/capacity-type"
)

// Phase is a part of a drill. Its begin is a RunPhase event.
type Phase string

// The phases, in their order.
const (
	Arrange Phase = "arrange" // the cluster is prepared as the scenario requires
	Record  Phase = "record"  // watches, prober and queue record; nothing has happened yet
	Steps   Phase = "steps"   // what the scenario does
	Settle  Phase = "settle"  // recording goes on after the last step
	Restore Phase = "restore" // the cluster is put back; what happens now is the harness's doing
)

// NoticeType is a kind of notice that AWS gives of an instance's end.
type NoticeType string

// The notice types.
const (
	SpotInterruption                NoticeType = "spot-interruption"
	RebalanceRecommendation         NoticeType = "rebalance-recommendation"
	StateChange                     NoticeType = "state-change"
	ScheduledChange                 NoticeType = "scheduled-change"
	CapacityReservationInterruption NoticeType = "capacity-reservation-interruption"
	// LifecycleAction is of Auto Scaling, which waits with the end of an instance until the action
	// is completed, or its heartbeat timeout is over.
	LifecycleAction NoticeType = "lifecycle-action"
	// CapacityBlockExpiration names a reservation and no instance: those in it end.
	CapacityBlockExpiration NoticeType = "capacity-block-expiration"
)

// ReservationLabel is the label of a node whose instance is in a capacity reservation, with its id. It
// is Karpenter's: https://karpenter.sh/docs/reference/labels/.
const ReservationLabel = "karpenter.k8s.aws/capacity-reservation-id"

// NoticeTypes lists every notice type: those that EventBridge's rules let through.
func NoticeTypes() []NoticeType {
	return []NoticeType{SpotInterruption, RebalanceRecommendation, StateChange, ScheduledChange, CapacityReservationInterruption, LifecycleAction, CapacityBlockExpiration}
}

// StatusChecked is the type of a notice that nobody sends: EC2 describes what it found when it is asked for
// the status of its instances.
const StatusChecked NoticeType = "status-check"

// InMessage is the type of a notice that is a message in a form of its own, which no rule of EventBridge has
// made.
const InMessage NoticeType = "message"

// AllNoticeTypes lists the notice types and StatusChecked.
func AllNoticeTypes() []NoticeType { return append(NoticeTypes(), StatusChecked) }

// StatusCheck is what EC2 can find: a check that fails, or the code of an event that is scheduled.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-system-instance-status-check.html
type StatusCheck string

// The checks and events that drills have.
const (
	InstanceCheck      StatusCheck = "instance-status"
	SystemCheck        StatusCheck = "system-status"
	SystemReboot       StatusCheck = "system-reboot"
	InstanceRetirement StatusCheck = "instance-retirement"
)

// StatusChecks lists them.
func StatusChecks() []StatusCheck {
	return []StatusCheck{InstanceCheck, SystemCheck, SystemReboot, InstanceRetirement}
}

// HealthStatus is the statusCode of an AWS Health event.
type HealthStatus string

// The statuses. The change of a closed event is over, or was cancelled.
const (
	HealthOpen     HealthStatus = "open"
	HealthClosed   HealthStatus = "closed"
	HealthUpcoming HealthStatus = "upcoming"
)

// HealthStatuses lists every status.
func HealthStatuses() []HealthStatus {
	return []HealthStatus{HealthOpen, HealthClosed, HealthUpcoming}
}

// NoticeSource is where a handler reads notices.
type NoticeSource string

// The sources.
const (
	// FromQueue is an SQS queue to which EventBridge sends them.
	FromQueue NoticeSource = "queue"
	// FromMetadata is the metadata of the instance that the handler's pod runs on.
	FromMetadata NoticeSource = "metadata"
)

// NoticeSources lists every source, the default first.
func NoticeSources() []NoticeSource { return []NoticeSource{FromQueue, FromMetadata} }

// CommitPoint is the point from which on a handler may delete a message.
type CommitPoint string

// The commit points.
const (
	// CommitReceived: at once; a handler that dies then has lost the notice.
	CommitReceived CommitPoint = "received"
	// CommitRecorded: when the drain is under way and recorded in the cluster, so
	// that it goes on after a restart.
	CommitRecorded CommitPoint = "recorded"
	// CommitDrained: when the node is drained.
	CommitDrained CommitPoint = "drained"
)

// CommitPoints lists every commit point.
func CommitPoints() []CommitPoint {
	return []CommitPoint{CommitReceived, CommitRecorded, CommitDrained}
}

// ProxyMode is kube-proxy's mode.
type ProxyMode string

// The modes; IPVS only if the kernel has it.
const (
	IPTables ProxyMode = "iptables"
	NFTables ProxyMode = "nftables"
	IPVS     ProxyMode = "ipvs"
)

// ProxyModes lists every mode, the default first.
func ProxyModes() []ProxyMode { return []ProxyMode{IPTables, NFTables, IPVS} }

// Disturbance is what a drill does to the handler under test.
type Disturbance string

// The disturbances.
const (
	KillHandler      Disturbance = "kill"      // SIGKILL for the processes of its containers; the kubelet starts them again
	UpdateHandler    Disturbance = "update"    // a rolling update to the same image
	CutOffHandler    Disturbance = "cut-off"   // what it sends to the Kubernetes API is dropped for a time
	ScaleHandler     Disturbance = "scale"     // another number of replicas
	TerminateHandler Disturbance = "terminate" // its pods are deleted: SIGTERM, and new pods in their place
	RetireHandler    Disturbance = "retire"    // one replica less; the one that drains goes
	MoveHandler      Disturbance = "move"      // a rolling update that moves it to a certain node
	StopHandler      Disturbance = "stop"      // it has no pod for a time
)

// Operation is what an operator, or the cloud, does to a node.
type Operation string

// The operations.
const (
	UncordonNode Operation = "uncordon"                   // kubectl uncordon
	ReadmitNode  Operation = "readmit"                    // kubectl uncordon, and the handler's taints are removed
	DeleteNode   Operation = "delete-node"                // the Node object is deleted, and its kubelet goes on
	RejoinNode   Operation = "rejoin"                     // the kubelet of a deleted Node starts again and registers it, with the same instance
	RejoinNoID   Operation = "rejoin-without-provider-id" // the same, but the Node has no providerID
	TouchNode    Operation = "touch"                      // an annotation of the Node object is set and removed
	DeletePods   Operation = "delete-pods"                // the drill's pods on the node are deleted, as by kubectl delete pod
	StopKubelet  Operation = "stop-kubelet"               // no status, no new pods, and none ends; the node becomes NotReady
	DrainNode    Operation = "drain"                      // kubectl drain
	StartAgain   Operation = "start-instance"             // an instance that was taken by a notice to stop starts again, as the same
	Uninitialize Operation = "uninitialize"               // the labels that the handler's pods need are taken off the node: it is not ready for them yet
	Initialize   Operation = "initialize"                 // they are set
)

// Preparation is a part of the state that an operator left a node in.
type Preparation string

// The preparations.
const (
	PreparedCordon     Preparation = "cordon"
	PreparedTaint      Preparation = "taint"
	PreparedLabel      Preparation = "label"
	PreparedAnnotation Preparation = "annotation"
	PreparedShutdown   Preparation = "shutdown-grace-period" // of the kubelet
)

// OperatorsDomain is the domain of the labels, annotations and taints that drills put on
// nodes for an operator, with its subdomains. Nothing else uses it, so that they can be
// removed after any drill.
const OperatorsDomain = "example.com"

// OperatorsKey reports whether a label, annotation or taint is of OperatorsDomain.
func OperatorsKey(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	return found && (domain == OperatorsDomain || strings.HasSuffix(domain, "."+OperatorsDomain))
}

// Disruption is what a drill does to CoreDNS.
type Disruption string

// The disruptions.
const (
	DeleteDNSPods Disruption = "delete"         // its pods are deleted, as kubectl delete does
	KillDNSPods   Disruption = "kill"           // SIGKILL for the processes of its containers; the kubelet starts them again
	RestartDNS    Disruption = "restart"        // a rolling restart of the Deployment
	DrainDNSNode  Disruption = "drain"          // the node is cordoned and all its pods evicted, as kubectl drain does
	ScaleDNS      Disruption = "scale"          // another number of replicas
	ReloadDNS     Disruption = "reload"         // a changed Corefile, which its running pods reload
	EditLameduck  Disruption = "lameduck"       // another lameduck in the Corefile, as by kubectl edit
	BreakCorefile Disruption = "break-corefile" // a Corefile that cannot be read
	MisplaceDNS   Disruption = "node-selector"  // a nodeSelector that no node satisfies
)

// ConflictMode is how the upgrade of an add-on resolves conflicts with other field managers:
// resolveConflicts of the API of Amazon EKS.
type ConflictMode string

// The modes.
const (
	OverwriteConflicts ConflictMode = "OVERWRITE" // the add-on takes the fields
	PreserveConflicts  ConflictMode = "PRESERVE"  // the add-on leaves the fields as they are
	RefuseConflicts    ConflictMode = "NONE"      // nothing is changed if there is a conflict
)

// ConflictModes lists every mode.
func ConflictModes() []ConflictMode {
	return []ConflictMode{OverwriteConflicts, PreserveConflicts, RefuseConflicts}
}

// Words returns the members of a closed list as strings, for flags and messages.
func Words[T ~string](list []T) []string {
	words := make([]string, len(list))
	for i, word := range list {
		words[i] = string(word)
	}
	return words
}

// Number names a figure of an event. The comments at the kinds show which a kind
// has; the unit is part of what a name means.
type Number string

// The figures of events. Durations are in seconds.
const (
	Took           Number = "took"             // s, of a call, or of killing a node
	Messages       Number = "messages"         // of a receive
	Polls          Number = "polls"            // of a receive: requests to the upstream
	Visible        Number = "visible"          // messages in the queue
	Invisible      Number = "invisible"        // messages handed out
	MinAvailable   Number = "min_available"    // of a PodDisruptionBudget
	Priority       Number = "priority"         // of a pod
	Grace          Number = "grace"            // s, of a pod or of its termination
	ToleratesDrain Number = "tolerates_cordon" // 1 for a pod that tolerates node.kubernetes.io/unschedulable
	Restarts       Number = "restarts"         // of a container
	ExitCode       Number = "exit_code"        // of a container
	LameduckTime   Number = "seconds"          // s, that CoreDNS logged
	Replicas       Number = "replicas"         // that CoreDNS is scaled to
	VirtualNodes   Number = "virtual_nodes"
	Cores          Number = "cores"
	Requests       Number = "requests"      // to the API server
	Asked          Number = "asked"         // queries
	UnsentQueries  Number = "unsent"        // queries that never left
	Dropped        Number = "dropped"       // packets of a handler that is cut off; answers that the prober could not take; datagrams
	LateP99        Number = "late_p99"      // s, that queries left after their time
	LateMax        Number = "late_max"      // s
	ClockStep      Number = "clock_step"    // s, by which the wall clock was set during the run
	ClockBound     Number = "clock_bound"   // s, how far two clocks may be apart
	FlowCount      Number = "flows"         // on record
	Overflows      Number = "overflows"     // times that flow events were lost
	InsertFailed   Number = "insert_failed" // packets without a connection tracking entry
	Resolution     Number = "resolution"    // s, of a flow's times
	Bytes          Number = "bytes"         // of memory, without what is shared with files
	RecorderCPU    Number = "cpu"           // s, that recording used
	Raised         Number = "raised"        // threads of the probers that the kernel runs before all others
	Waited         Number = "waited"        // s, for a processor
	Ran            Number = "ran"           // s, that a process ran
	Stolen         Number = "stolen"        // s, that the host of this machine did not run its processors
	Throttled      Number = "throttled"     // s, that a CPU limit kept a process from running
	Within         Number = "within"        // s, before the event
	Samples        Number = "samples"       // of waits
	Processes      Number = "processes"     // whose waits were sampled
	Calls          Number = "calls"         // that were counted and not recorded one by one
	RetryAfter     Number = "retry_after"   // s, that an answer requires the client to wait
)

// Numbers are the figures of an event.
type Numbers map[Number]float64

// Duration is a figure that is in seconds; 0 if it is not there.
func (n Numbers) Duration(name Number) time.Duration {
	return time.Duration(n[name] * float64(time.Second))
}
