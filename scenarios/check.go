package scenarios

import "github.com/spotdrill/spotdrill/framework/strict"

// Check is one thing that must be found in the history. Exactly one field is
// set. Next to these, every scenario is held to the checks that always apply.
type Check struct {
	Marked         *Marked         `yaml:"marked,omitempty"`
	Drained        *Drained        `yaml:"drained,omitempty"`
	DaemonPodsLeft *DaemonPodsLeft `yaml:"daemonPodsLeft,omitempty"`
	Deleted        *Deleted        `yaml:"deleted,omitempty"`
	Untouched      *Untouched      `yaml:"untouched,omitempty"`
	NoEviction     *NoEviction     `yaml:"noEviction,omitempty"`
	NodeEvent      *NodeEvent      `yaml:"nodeEvent,omitempty"`
	DNSLost        *DNSLost        `yaml:"dnsLost,omitempty"`
	DNSWindow      *DNSWindow      `yaml:"dnsWindow,omitempty"`
	EndpointLeft   *EndpointLeft   `yaml:"endpointLeft,omitempty"`
	DrainedOnce    *DrainedOnce    `yaml:"drainedOnce,omitempty"`
	NotRestarted   *NotRestarted   `yaml:"notRestarted,omitempty"`
	QueueEmpty     *QueueEmpty     `yaml:"queueEmpty,omitempty"`
	MidDrain       *MidDrain       `yaml:"midDrain,omitempty"`

	NotScheduled    *NotScheduled    `yaml:"notScheduled,omitempty"`
	Replaced        *Replaced        `yaml:"replaced,omitempty"`
	GraceHonoured   *GraceHonoured   `yaml:"graceHonoured,omitempty"`
	NotStalled      *NotStalled      `yaml:"notStalled,omitempty"`
	CriticalLast    *CriticalLast    `yaml:"criticalLast,omitempty"`
	PodsLeft        *PodsLeft        `yaml:"podsLeft,omitempty"`
	BudgetKept      *BudgetKept      `yaml:"budgetKept,omitempty"`
	Resumed         *Resumed         `yaml:"resumed,omitempty"`
	BlockedReported *BlockedReported `yaml:"blockedReported,omitempty"`
}

// Marked wants the node cordoned, or tainted with the taint that the handler's
// description names, within a time of the notice's being put.
type Marked struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
	// After, where given, is a fault: Within then counts from the fault's end,
	// where that is later than the notice.
	After  string          `yaml:"after,omitempty"`
	Within strict.Duration `yaml:"within"`
}

// Drained wants every evictable pod that was on the node when the notice was
// put, or came before the handler marked it, gone before the notice's deadline, or
// sooner where Within says so.
// Daemon, mirror and finished pods and those that tolerate a cordon do not count;
// where Pods is given, no others than these do.
type Drained struct {
	Node   string          `yaml:"node"`
	Notice string          `yaml:"notice"`
	Within strict.Duration `yaml:"within,omitempty"`
	Pods   string          `yaml:"pods,omitempty"`
}

// DrainedOnce wants every mark that the handler's description names put on the
// node at most once and one of them at least; and, where it names an event that
// announces a drain, that event exactly once.
type DrainedOnce struct {
	Node string `yaml:"node"`
}

// NotRestarted wants the handler's pods there from the first step to the end of
// settling, with no container that ended or was started again.
type NotRestarted struct{}

// QueueEmpty wants no message in the queue at the end, neither visible nor
// handed out.
type QueueEmpty struct{}

// MidDrain wants the handler disturbed in the middle: the node's drain had begun
// and pods were still on it. Unless that is so, surviving it shows nothing.
type MidDrain struct {
	Disturbance string `yaml:"disturbance"` // name of a disturb step
	Node        string `yaml:"node"`
}

// DaemonPodsLeft wants the daemon pods of the node neither evicted nor deleted
// before its instance goes (or, where it never goes, at all).
type DaemonPodsLeft struct {
	Node string `yaml:"node"`
}

// Deleted wants every message of the notice or message deleted from the queue,
// within a time of its being put.
type Deleted struct {
	Of string `yaml:"of"` // name of a notice or message step
	// After is a fault, as in Marked.
	After  string          `yaml:"after,omitempty"`
	Within strict.Duration `yaml:"within"`
}

// Untouched wants the node neither cordoned, tainted nor deleted, and no pod of
// it evicted or deleted by eviction.
type Untouched struct {
	Node string `yaml:"node"`
}

// NoEviction wants no pod evicted anywhere: the reproduction of an incident in
// which nobody evicts anything.
type NoEviction struct{}

// NodeEvent wants a Kubernetes event about the node after the notice was put.
type NodeEvent struct {
	Node   string          `yaml:"node"`
	Notice string          `yaml:"notice"`
	Within strict.Duration `yaml:"within"`
}

// DNSLost bounds the lost queries at the service.
type DNSLost struct {
	Mode string `yaml:"mode"` // which of the prober's queries
	Max  int    `yaml:"max"`  // how many may be lost
	// ExceptConntrack does not count what connection tracking itself lost: a query under
	// way at a pod when kube-proxy removed its entry, or whose entry the kernel could not
	// insert. No setting of CoreDNS spares these.
	ExceptConntrack bool `yaml:"exceptConntrack,omitempty"`
}

// DNSWindow wants the longest window in which service queries were lost to be
// at least Min long, or at most Max, or both.
type DNSWindow struct {
	Mode string          `yaml:"mode"` // which of the prober's queries
	Min  strict.Duration `yaml:"min,omitempty"`
	Max  strict.Duration `yaml:"max,omitempty"`
}

// EndpointLeft wants the kube-dns endpoint of the node's CoreDNS pod to stay
// ready for at least this long after the node was reclaimed: the sign that
// nobody but the node controller noticed.
type EndpointLeft struct {
	Node    string          `yaml:"node"`
	AtLeast strict.Duration `yaml:"atLeast"`
}

// Kind returns the check's ID, as it is written in YAML, and its parameters.
func (c Check) Kind() (id string, value any) {
	id, err := strict.One(c)
	if err != nil {
		return "", nil
	}
	return id, c.value().Interface()
}
