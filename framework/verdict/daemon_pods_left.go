package verdict

import (
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// DaemonPodsLeft has the parameters of checkDaemonPodsLeft.
type DaemonPodsLeft struct {
	Node string `yaml:"node"`
}

// Validate checks the parameters.
func (c DaemonPodsLeft) Validate(in *scenarios.Scope) { in.Node(c.Node) }

// DecidedBy is how long it needs the recording.
func (c DaemonPodsLeft) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Absent(t.Stepped+scenarios.ReactionTime).On(c.Node, t)
}

var checkDaemonPodsLeft = check{
	Kind: Kind{
		ID: "daemonPodsLeft", Title: "daemon pods left on %s",
		Requires: "The DaemonSet pods of the node are neither evicted nor deleted while the node is there.",
		Fix:      "leave pods that a DaemonSet owns: they come back on the same node, and the others need them until the end",
		Look:     Look{Lane: LanePods, Text: "the lane Pods: who ended a DaemonSet's pod, and when? Then handler.log"},
	},
	judge: by(daemonPodsLeft),
}

func daemonPodsLeft(j judge, v Verdict, c DaemonPodsLeft) Verdict {
	v = v.wants("daemon pods neither evicted nor deleted while the node is there", c.Node)
	return j.left(v, c.Node, "daemon", func(p story.Pod) bool { return history.OwnedBy(p.Events, "DaemonSet") })
}
