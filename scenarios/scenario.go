// Package scenarios holds the catalogue of drills: the types of a scenario, the
// strict loader, and the scenarios themselves as YAML files.
package scenarios

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// APIVersion and Kind head every scenario file.
const (
	APIVersion = "spotdrill.dev/v1alpha1"
	Kind       = "Scenario"
)

// Set is a selection of scenarios with the deadlines that go with it.
type Set string

// The sets: Fast has short deadlines and the scenarios that catch most; Full
// has everything at the two minutes that EC2 gives.
const (
	Fast Set = "fast"
	Full Set = "full"
)

// Scenario is one drill: what the cluster looks like, what happens, and what
// must then be found in the history.
type Scenario struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	// Name is the file's name without .yaml, and the entry in every report.
	Name string `yaml:"name"`
	// Title is the clause in one sentence.
	Title string `yaml:"title"`
	// Description says why the clause is there.
	Description string `yaml:"description"`
	// Source is the page that the rule comes from.
	Source string `yaml:"source"`
	// Profile groups clauses: see Profiles.
	Profile string `yaml:"profile"`
	// Sets names the sets that the scenario belongs to.
	Sets []Set `yaml:"sets"`
	// Feature is what a handler must claim for the scenario to apply to it; empty
	// means that it applies to every handler, as those of the core
	// profiles (SPOT, PDB, QUEUE-HYGIENE, RESILIENCE) do in any case. The handler is set as its description says for the feature.
	Feature string `yaml:"feature,omitempty"`
	// Handler is "under-test" (the default) or "none" for a drill that shows
	// what happens without one.
	Handler string `yaml:"handler,omitempty"`

	// CoreDNS is how cluster DNS is set for the drill; it is put back afterwards.
	CoreDNS  coredns.Settings `yaml:"coredns"`
	Workload Workload         `yaml:"workload,omitempty"`
	// Nodes chooses the nodes that steps and checks name, by these names.
	Nodes map[string]Pick `yaml:"nodes,omitempty"`
	// Deadline is the time from a notice to the loss of its instance.
	Deadline Deadline `yaml:"deadline,omitempty"`
	// Probe turns the DNS prober on.
	Probe *Probe `yaml:"probe,omitempty"`

	// Steps happen one after the other.
	Steps []Step `yaml:"steps"`
	// Settle is how long the recording goes on after the last step.
	Settle strict.Duration `yaml:"settle"`
	// Checks are judged on what was recorded.
	Checks []Check `yaml:"checks"`

	// File is where the scenario was read from, Text what stands there.
	File string `yaml:"-"`
	Text []byte `yaml:"-"`
}

// Digest identifies the scenario's text, comments included; empty for one that
// was not read from anywhere.
func (s Scenario) Digest() string {
	if len(s.Text) == 0 {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(s.Text))
}

// HandlerNone in Scenario.Handler takes the handler away for the drill.
const (
	HandlerUnderTest = "under-test"
	HandlerNone      = "none"
)

// Profiles lists the groups of clauses, in the order in which they are drilled:
// those that share cluster settings follow each other, and those that measure
// DNS come when a new cluster has calmed down.
func Profiles() []string {
	return []string{"STATE-CHANGE", "SCHEDULED-CHANGE", "REBALANCE", "CAPACITY-RESERVATION", "QUEUE-HYGIENE", "RESILIENCE", "PDB", "SPOT", "STORM", "DNS", "INCIDENT"}
}

// CoreProfiles lists the groups of clauses that every handler is held to. Those of
// the others, extended ones, apply where the handler claims their feature.
func CoreProfiles() []string { return []string{"QUEUE-HYGIENE", "RESILIENCE", "PDB", "SPOT"} }

// Core is true for a clause that every handler is held to, whatever it claims.
func (s Scenario) Core() bool { return slices.Contains(CoreProfiles(), s.Profile) }

// Pick chooses the node that a name in steps and checks stands for.
type Pick struct {
	// Capacity is what the node was bought as.
	Capacity string `yaml:"capacity"`
	// Runs, where given, asks for a node with a CoreDNS pod on it. Nodes that run
	// none come first otherwise.
	Runs string `yaml:"runs,omitempty"`
}

// Deadline is the time that a notice leaves, by set.
type Deadline struct {
	// Fast is that of the fast set.
	Fast strict.Duration `yaml:"fast"`
	// Full is that of the full set: the two minutes that EC2 gives.
	Full strict.Duration `yaml:"full"`
}

// For is the deadline in the given set.
func (d Deadline) For(set Set) time.Duration {
	if set == Full {
		return d.Full.D()
	}
	return d.Fast.D()
}

// Probe is the load of the DNS prober. What is left out has its default.
type Probe struct {
	// Transport is how the service is asked; the control is asked by UDP.
	Transport Transport `yaml:"transport,omitempty"`
	// Fresh is how many queries a second leave from a port of their own, as those of
	// a stub resolver do; by TCP, over a connection of their own.
	Fresh int `yaml:"fresh,omitempty"`
	// Fixed is how many a second leave from a few ports, as those of a node-local
	// cache do; by TCP, over connections that are kept.
	Fixed int `yaml:"fixed,omitempty"`
	// FixedPorts is how many ports, or kept connections, these are.
	FixedPorts int `yaml:"fixedPorts,omitempty"`
	// Control is how many a second are asked of a CoreDNS pod that stays.
	Control int `yaml:"control,omitempty"`
	// Probers is how many share these rates, each on a node of its own that nothing
	// happens to, 1 to MaxProbers: each node has rules and conntrack entries of its own.
	Probers int `yaml:"probers,omitempty"`
	// Name is what is asked for.
	Name string `yaml:"name,omitempty"`
}

// Transport is what carries the queries.
type Transport string

// The transports.
const (
	UDP Transport = "udp"
	TCP Transport = "tcp"
)

// Transports lists them.
func Transports() []string { return []string{string(UDP), string(TCP)} }

// MaxProbers leaves a node of the cluster's five for something to happen to.
const MaxProbers = 4

// DefaultProbe is a busy node's DNS load, small enough for two shared cores.
func DefaultProbe() Probe {
	return Probe{Transport: UDP, Fresh: 1000, Fixed: 500, FixedPorts: 8, Control: 200, Probers: 1, Name: "kubernetes.default.svc.cluster.local."}
}

// Step is one thing that happens. Exactly one field is set.
type Step struct {
	Notice  *Notice  `yaml:"notice,omitempty"`
	Message *Message `yaml:"message,omitempty"`
	Await   *Await   `yaml:"await,omitempty"`
	Reclaim *Reclaim `yaml:"reclaim,omitempty"`
	Fault   *Fault   `yaml:"fault,omitempty"`
	// Budget changes a PodDisruptionBudget.
	Budget *BudgetChange `yaml:"budget,omitempty"`
	// Disturb does something to the handler.
	Disturb *Disturb `yaml:"disturb,omitempty"`
	// Disrupt does something to CoreDNS.
	Disrupt *Disrupt `yaml:"disrupt,omitempty"`
}

// Notice puts a notice into EventBridge; its deadline starts to run.
type Notice struct {
	// Name is how checks refer to it.
	Name string             `yaml:"name"`
	Type history.NoticeType `yaml:"type"`
	// Nodes whose instances it names. A type that names one instance sends one
	// notice a node.
	Nodes []string `yaml:"nodes,omitempty"`
	// Instance names an instance that is not in the cluster.
	Instance string `yaml:"instance,omitempty"`
	// InstanceLike is a node: the notice names an instance that is not in the cluster,
	// and whose id differs from that node's in its last character alone.
	InstanceLike string `yaml:"instanceLike,omitempty"`
	// Action of a spot interruption: terminate (default), stop, hibernate.
	Action string `yaml:"action,omitempty"`
	// State of a state change, such as stopping or running.
	State string `yaml:"state,omitempty"`
}

// Message puts a body straight into SQS, past EventBridge's rules. In the body,
// ${INSTANCE:name} stands for the instance of a named node, and ${REPEAT:n:text}
// for text n times over.
type Message struct {
	// Name is how awaits and checks refer to it.
	Name string `yaml:"name"`
	// Body is the message's text, at most 256 KiB.
	Body string `yaml:"body"`
	// Times is how many such messages are put; 0 means one.
	Times int `yaml:"times,omitempty"`
}

// Await goes on once a condition holds. When Timeout passes first the run goes
// on all the same: whether that is a failure is for the checks to say. Exactly
// one condition is set.
type Await struct {
	// Deleted waits until the messages of a notice or message were deleted.
	Deleted string `yaml:"deleted,omitempty"`
	// Received waits until the messages of a notice or message were handed out.
	Received string `yaml:"received,omitempty"`
	// Evicting waits until a pod of the node is told to end.
	Evicting string `yaml:"evicting,omitempty"`
	// Drained waits until no evictable pod is left on the node.
	Drained string `yaml:"drained,omitempty"`
	// Answering waits until the DNS service answered every query for so long.
	Answering strict.Duration `yaml:"answering,omitempty"`
	// Hit waits until the fault has hit a call.
	Hit string `yaml:"hit,omitempty"`
	// Ended waits until the fault is over.
	Ended string `yaml:"ended,omitempty"`
	// Ready waits until the pods of the workload that go by this name are there
	// again: Ready, and none of them on its way out.
	Ready string `yaml:"ready,omitempty"`
	// Timeout is for how long it waits at most.
	Timeout strict.Duration `yaml:"timeout"`
}

// Reclaim kills the node's container without warning, as EC2 does: at the
// deadline of the notice that it names, or at once where it names none.
type Reclaim struct {
	Node string `yaml:"node"`
	At   string `yaml:"at,omitempty"` // name of a notice
}
