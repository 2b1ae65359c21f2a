package scenarios

import (
	"slices"

	"github.com/spotdrill/spotdrill/framework/strict"
)

// ReplacedFirst requires that the handler drains a node that it removes without a notice, and
// only when a node that was launched since is Ready. It may mark the node before.
type ReplacedFirst struct {
	Node string `yaml:"node"`
	// Of is the step that configures the handler, because of which the node is removed.
	Of string `yaml:"of"`
	// Within is the time from that step until the first pod has to leave.
	Within strict.Duration `yaml:"within"`
	// Replacements is how many launched nodes must be Ready then; left out, as many as nodes
	// are drained by then.
	Replacements int `yaml:"replacements,omitempty"`
}

func (c ReplacedFirst) validate(where string, in *scope, p *problems) {
	oneOf(p, where+".node", c.Node, in.disrupted)
	oneOf(p, where+".of", c.Of, in.reconfigured)
	p.positive(where+".within", c.Within)
	p.atLeast0(where+".replacements", c.Replacements)
}

func (c ReplacedFirst) observed(t Times) observation { return happens(t.Sent[c.Of] + c.Within.D()) }

// Removed requires that a node that the handler removes without a notice is drained, that its
// instance is terminated only then, and that its Node object is deleted last.
type Removed struct {
	Node string `yaml:"node"`
	// Of is the step because of which the node is removed: reconfigure, or operate with
	// delete-node.
	Of string `yaml:"of"`
	// Within is the time from that step to the deletion of the Node object.
	Within strict.Duration `yaml:"within"`
}

func (c Removed) validate(where string, in *scope, p *problems) {
	oneOf(p, where+".node", c.Node, in.disrupted)
	oneOf(p, where+".of", c.Of, slices.Concat(in.reconfigured, in.deletions))
	p.positive(where+".within", c.Within)
}

func (c Removed) observed(t Times) observation { return happens(t.Sent[c.Of] + c.Within.D()) }

// DisruptedAtOnce requires that the handler removes no more nodes at the same time without a
// notice than its budget allows. A node is being removed from the handler's mark, or its first
// pod that has to leave, until its instance is terminated.
type DisruptedAtOnce struct {
	// Of is the step that configures the handler, because of which nodes are removed.
	Of string `yaml:"of"`
	// Max is how many may be removed at the same time.
	Max int `yaml:"max"`
}

func (c DisruptedAtOnce) validate(where string, in *scope, p *problems) {
	oneOf(p, where+".of", c.Of, in.reconfigured)
	if c.Max < 1 {
		p.add(where+".max", "%d is less than 1: none could be removed", c.Max)
	}
}

func (DisruptedAtOnce) observed(Times) observation { return atEnd() }

// DaemonSetRuns requires that a DaemonSet whose pods did not fit on nodes runs on all launched
// nodes when these have been replaced.
type DaemonSetRuns struct {
	// Name is a DaemonSet that a step creates.
	Name string `yaml:"name"`
	// Of is the step that configures the handler, because of which the nodes are replaced.
	Of string `yaml:"of"`
	// Within is the time from that step.
	Within strict.Duration `yaml:"within"`
}

func (c DaemonSetRuns) validate(where string, in *scope, p *problems) {
	oneOf(p, where+".name", c.Name, in.daemonSets)
	oneOf(p, where+".of", c.Of, in.reconfigured)
	p.positive(where+".within", c.Within)
}

func (c DaemonSetRuns) observed(t Times) observation { return happens(t.Sent[c.Of] + c.Within.D()) }

// Forgotten requires that the Node object of an instance that was taken in the middle of its
// drain is deleted in time after that.
type Forgotten struct {
	Node   string          `yaml:"node"`
	Within strict.Duration `yaml:"within"`
}

func (c Forgotten) validate(where string, in *scope, p *problems) {
	oneOf(p, where+".node", c.Node, in.reclaimed)
	p.positive(where+".within", c.Within)
}

func (c Forgotten) observed(t Times) observation { return happens(t.Reclaimed[c.Node] + c.Within.D()) }

// Terminated requires that the handler terminates the instances of a notice that never became
// nodes: nobody else does, and they are paid for.
type Terminated struct {
	// Notice is a notice with launchedSince.
	Notice string          `yaml:"notice"`
	Within strict.Duration `yaml:"within"`
}

func (c Terminated) validate(where string, in *scope, p *problems) {
	oneOf(p, where+".notice", c.Notice, in.noticeNames())
	if len(in.notices[c.Notice]) > 0 {
		p.add(where+".notice", "%q names nodes: only a notice with launchedSince can name instances without one", c.Notice)
	}
	p.positive(where+".within", c.Within)
}

func (c Terminated) observed(t Times) observation { return happens(t.Sent[c.Notice] + c.Within.D()) }

// PodReported requires that the handler reports, in an event about a pod that no node has room
// for, what the pod requests and no instance type has.
type PodReported struct {
	Notice string `yaml:"notice"`
	// Says is a part of the event's text, such as the name of a resource.
	Says   string          `yaml:"says"`
	Within strict.Duration `yaml:"within"`
}

func (c PodReported) validate(where string, in *scope, p *problems) {
	oneOf(p, where+".notice", c.Notice, in.noticeNames())
	if c.Says == "" {
		p.add(where+".says", "must not be empty")
	}
	p.positive(where+".within", c.Within)
}

func (c PodReported) observed(t Times) observation { return happens(t.Sent[c.Notice] + c.Within.D()) }
