package scenarios

import (
	"slices"

	"github.com/spotdrill/spotdrill/framework/strict"
)

// Marked requires that the node is cordoned, or tainted with the handler's taint, in
// time after the notice.
type Marked struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
	// After is a fault or a disturbance. If it ends later than the notice is sent, within
	// counts from its end.
	After  string          `yaml:"after,omitempty"`
	Within strict.Duration `yaml:"within"`
}

func (c Marked) validate(where string, in *scope, p *problems) {
	in.noticeFor(where, c.Node, c.Notice, p)
	in.after(where, c.After, p)
	p.positive(where+".within", c.Within)
}

func (c Marked) observed(t Times) observation {
	return happens(t.sent(c.Notice, c.After)+c.Within.D()).on(c.Node, t)
}

// Drained requires that every evictable pod is gone from the node by the notice's
// deadline: every pod that was on the node when the notice was sent, or arrived before
// the handler marked the node or within a second of that. DaemonSet pods, static pods,
// finished pods, and pods that tolerate a cordon or the handler's taint are not evictable.
type Drained struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
	// Within is a shorter limit than the notice's deadline.
	Within strict.Duration `yaml:"within,omitempty"`
	// Pods limits the check to this group of the workload.
	Pods string `yaml:"pods,omitempty"`
}

func (c Drained) validate(where string, in *scope, p *problems) {
	in.noticeFor(where, c.Node, c.Notice, p)
	if longest := max(in.deadline.Fast, in.deadline.Full); c.Within > longest {
		p.add(where+".within", "%s is more than the deadline (%s), which is the limit anyway", c.Within.D(), longest.D())
	}
	if c.Pods != "" {
		oneOf(p, where+".pods", c.Pods, in.pods)
	}
}

func (c Drained) observed(t Times) observation {
	until := t.Deadlines[c.Notice]
	if c.Within > 0 {
		until = min(until, t.Sent[c.Notice]+c.Within.D())
	}
	return happens(until).on(c.Node, t)
}

// LifecycleCompleted requires that the lifecycle action of a notice is completed with CONTINUE when
// the node is drained, and before the deadline, which is the heartbeat timeout of the hook.
type LifecycleCompleted struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
}

func (c LifecycleCompleted) validate(where string, in *scope, p *problems) {
	in.noticeFor(where, c.Node, c.Notice, p)
}

func (c LifecycleCompleted) observed(t Times) observation {
	return happens(t.Deadlines[c.Notice]).on(c.Node, t)
}

// DrainedOnce requires that the handler drains the node exactly once: it puts at least
// one of its marks on the node and none of them twice, and sends the event that
// announces a drain exactly once, if its description names such an event.
type DrainedOnce struct {
	Node string `yaml:"node"`
}

func (c DrainedOnce) validate(where string, in *scope, p *problems) { in.node(where, c.Node, p) }

func (c DrainedOnce) observed(t Times) observation { return absent(t.Stepped+RepeatTime).on(c.Node, t) }

// Untouched requires that the node is not cordoned, tainted or deleted, and that none of
// its pods is evicted.
type Untouched struct {
	Node string `yaml:"node"`
}

func (c Untouched) validate(where string, in *scope, p *problems) { in.node(where, c.Node, p) }

func (c Untouched) observed(t Times) observation { return absent(t.reaction()).on(c.Node, t) }

// ReadsNodeEvents reports whether a check requires an event of the handler about a node.
func (s Scenario) ReadsNodeEvents() bool {
	return slices.ContainsFunc(s.Checks, func(c Check) bool { return c.NodeEvent != nil })
}

// NodeEvent requires a Kubernetes event about the node after the notice.
type NodeEvent struct {
	Node   string          `yaml:"node"`
	Notice string          `yaml:"notice"`
	Within strict.Duration `yaml:"within"`
}

func (c NodeEvent) validate(where string, in *scope, p *problems) {
	in.noticeFor(where, c.Node, c.Notice, p)
	p.positive(where+".within", c.Within)
}

func (c NodeEvent) observed(t Times) observation {
	return happens(t.Sent[c.Notice]+c.Within.D()).on(c.Node, t)
}
