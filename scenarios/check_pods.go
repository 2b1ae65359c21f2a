package scenarios

import "github.com/spotdrill/spotdrill/framework/strict"

// DaemonPodsLeft requires that the node's DaemonSet pods are neither evicted nor deleted
// while its instance exists.
type DaemonPodsLeft struct {
	Node string `yaml:"node"`
}

func (c DaemonPodsLeft) validate(where string, in *scope, p *problems) { in.node(where, c.Node, p) }

func (c DaemonPodsLeft) observed(t Times) observation {
	return absent(t.Stepped+ReactionTime).on(c.Node, t)
}

// PodsLeft requires that these pods of the node are neither evicted nor deleted while
// its instance exists.
type PodsLeft struct {
	Node string `yaml:"node"`
	Pods string `yaml:"pods"`
}

func (c PodsLeft) validate(where string, in *scope, p *problems) {
	in.node(where, c.Node, p)
	oneOf(p, where+".pods", c.Pods, in.pods)
}

func (c PodsLeft) observed(t Times) observation { return absent(t.Stepped+ReactionTime).on(c.Node, t) }

// NoEviction requires that no pod of the cluster is evicted. It is for reproducing an
// incident in which nothing drains the node.
type NoEviction struct{}

func (NoEviction) validate(string, *scope, *problems) {}

func (NoEviction) observed(t Times) observation { return absent(t.reaction()) }

// NotScheduled requires that no pod is bound to the node after the handler marked it,
// except in the second in which the scheduler may not know of the mark.
// Pods that a drain leaves are excepted: DaemonSet pods, static pods and pods that
// tolerate a cordon. The check is Unknown unless pods were bound to other nodes in the
// meantime.
type NotScheduled struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
}

func (c NotScheduled) validate(where string, in *scope, p *problems) {
	in.noticeFor(where, c.Node, c.Notice, p)
}

func (c NotScheduled) observed(t Times) observation {
	return absent(t.Stepped+RepeatTime).on(c.Node, t)
}

// Replaced requires that every controller gets a replacement on another node for each of
// its evictable pods that were on the node when the notice was sent. The replacements
// must be Ready at the notice's deadline.
type Replaced struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
}

func (c Replaced) validate(where string, in *scope, p *problems) {
	in.noticeFor(where, c.Node, c.Notice, p)
}

func (c Replaced) observed(t Times) observation { return happens(t.Deadlines[c.Notice]) }

// GraceHonoured requires that these pods are terminated with at least their own grace
// period, and that they get a minimum time to stop.
type GraceHonoured struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
	Pods   string `yaml:"pods"`
	// AtLeast is the shortest time that a pod must get to stop.
	AtLeast strict.Duration `yaml:"atLeast"`
}

func (c GraceHonoured) validate(where string, in *scope, p *problems) {
	in.podsFor(where, c.Node, c.Notice, c.Pods, p)
	p.positive(where+".atLeast", c.AtLeast)
}

func (c GraceHonoured) observed(t Times) observation {
	return happens(t.Deadlines[c.Notice]).on(c.Node, t)
}

// NotStalled requires that the drain does not wait for these pods, which are slow to
// stop: every other evictable pod of the node is terminating before the first of them is
// gone. Critical pods may wait.
type NotStalled struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
	Pods   string `yaml:"pods"`
}

func (c NotStalled) validate(where string, in *scope, p *problems) {
	in.podsFor(where, c.Node, c.Notice, c.Pods, p)
}

func (c NotStalled) observed(t Times) observation {
	return happens(t.Deadlines[c.Notice]).on(c.Node, t)
}

// CriticalLast requires that no critical pod of the node is terminating before all its
// other evictable pods have stopped.
type CriticalLast struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
}

func (c CriticalLast) validate(where string, in *scope, p *problems) {
	in.noticeFor(where, c.Node, c.Notice, p)
}

func (c CriticalLast) observed(t Times) observation {
	return happens(t.Deadlines[c.Notice]).on(c.Node, t)
}
