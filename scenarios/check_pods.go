package scenarios

import "github.com/spotdrill/spotdrill/framework/strict"

// NotScheduled wants no pod bound to the node once the handler has marked it, but
// those that a drain leaves: daemon and static pods and those that tolerate the
// mark of a cordon. Pods must have been bound elsewhere meanwhile.
type NotScheduled struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
}

// Replaced wants as many new pods of every controller Ready on other nodes, before
// the notice's deadline, as it had evictable ones on the node when the notice was
// put.
type Replaced struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
}

// GraceHonoured wants the pods told to end with no less than their own grace
// period, and given at least so long to stop.
type GraceHonoured struct {
	Node    string          `yaml:"node"`
	Notice  string          `yaml:"notice"`
	Pods    string          `yaml:"pods"`
	AtLeast strict.Duration `yaml:"atLeast"`
}

// NotStalled wants every other evictable pod of the node told to end before the
// first of these, which are slow to, is gone. Critical pods may wait for them.
type NotStalled struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
	Pods   string `yaml:"pods"`
}

// CriticalLast wants no critical pod of the node told to end before every other
// evictable one has stopped.
type CriticalLast struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
}

// PodsLeft wants the pods on the node neither evicted nor deleted before its
// instance goes (or, where it never goes, at all).
type PodsLeft struct {
	Node string `yaml:"node"`
	Pods string `yaml:"pods"`
}

// BudgetKept wants never fewer of the pods Ready, and not told to end, than their
// PodDisruptionBudget asks for at that time, from the notice until the node's
// instance goes.
type BudgetKept struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
	Pods   string `yaml:"pods"`
}

// Resumed wants a pod of the node, of those that the budget kept there, told to
// end within a time of the budget's change.
type Resumed struct {
	Node   string          `yaml:"node"`
	Budget string          `yaml:"budget"` // name of a budget step
	Within strict.Duration `yaml:"within"`
}

// BlockedReported wants a Kubernetes event on the node, or on a pod that a budget
// keeps there, that names such a pod or the budget, before the notice's deadline.
// What the handler then does at the deadline is told and not judged.
type BlockedReported struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
	Pods   string `yaml:"pods"`
}
