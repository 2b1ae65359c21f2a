package verdict

import (
	"github.com/spotdrill/spotdrill/scenarios"
)

// NodeNotice are the parameters of a check of a node that a notice names. The notice's deadline
// decides it.
type NodeNotice struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
}

// Validate checks the parameters.
func (c NodeNotice) Validate(in *scenarios.Scope) { in.NoticeFor(c.Node, c.Notice) }

// DecidedBy is how long it needs the recording.
func (c NodeNotice) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.Deadlines[c.Notice]).On(c.Node, t)
}

// NodePods are the parameters of a check of pods on such a node.
type NodePods struct {
	NodeNotice `yaml:",inline"`
	Pods       string `yaml:"pods"`
}

// Validate checks the parameters.
func (c NodePods) Validate(in *scenarios.Scope) { in.PodsFor(c.Node, c.Notice, c.Pods) }
