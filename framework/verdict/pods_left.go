package verdict

import (
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// PodsLeft has the parameters of checkPodsLeft.
type PodsLeft struct {
	Node string `yaml:"node"`
	Pods string `yaml:"pods"`
}

// Validate checks the parameters.
func (c PodsLeft) Validate(in *scenarios.Scope) {
	in.Node(c.Node)
	in.OneOf("pods", c.Pods, in.Pods())
}

// DecidedBy is how long it needs the recording.
func (c PodsLeft) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Absent(t.Stepped+scenarios.ReactionTime).On(c.Node, t)
}

var checkPodsLeft = check{
	Kind: Kind{
		ID: "podsLeft", Title: "%s pods left on %s",
		Requires: "These pods of the node are neither evicted nor deleted before its instance goes.",
		Fix:      "leave pods that a drain must leave: mirror pods, DaemonSets' pods, and those that tolerate a cordon",
		Look:     Look{Lane: LanePods, Text: "the lane Pods: who ended a pod that a drain must leave? Then handler.log"},
	},
	judge: by(podsLeft),
}

func podsLeft(j judge, v Verdict, c PodsLeft) Verdict {
	v = v.wants(c.Pods+" pods neither evicted nor deleted while the node is there", c.Pods, c.Node)
	return j.left(v, c.Node, c.Pods, func(p story.Pod) bool { return p.In(c.Pods) })
}
