package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// NoEviction has the parameters of checkNoEviction. Without any, it is about all pods.
type NoEviction struct {
	// Node limits the check to pods of a node that a drain must leave: those of pods, or of daemonPods.
	Node string `yaml:"node,omitempty"`
	Pods string `yaml:"pods,omitempty"`
	// DaemonPods selects the pods that a DaemonSet owns.
	DaemonPods bool `yaml:"daemonPods,omitempty"`
}

// Validate checks the parameters.
func (c NoEviction) Validate(in *scenarios.Scope) {
	if c == (NoEviction{}) {
		return
	}
	in.Node(c.Node)
	in.ExactlyOne("pods, daemonPods", c.Pods != "", c.DaemonPods)
	if c.Pods != "" {
		in.OneOf("pods", c.Pods, in.Scenario.Workload.Groups())
	}
}

// DecidedBy is how long it needs the recording.
func (c NoEviction) DecidedBy(t scenarios.Times) scenarios.Observation {
	if c.Node == "" {
		return scenarios.Absent(t.Reaction())
	}
	return scenarios.Absent(t.Stepped+scenarios.ReactionTime).On(c.Node, t)
}

var checkNoEviction = by(Kind{
	ID: "noEviction", Title: "no eviction, or pods left on %s", Verdicts: []ID{"noEviction", "podsLeft", "daemonPodsLeft"},
	Requires: "The given pods of the node, or those that a DaemonSet owns, are neither evicted nor deleted while the node is there. Without parameters, for reproducing an incident in which nothing drains the node: no pod is evicted anywhere, the handler deletes none, and none of the workload is deleted.",
	Fix:      "nothing drains the node in this drill: find out who evicted or deleted pods; a second handler, Karpenter or a person may be at work in this cluster",
	Fixes: map[ID]string{
		"podsLeft":       "leave pods that a drain must leave: mirror pods, and those that tolerate a cordon",
		"daemonPodsLeft": "leave the pods of DaemonSets: they come back on the same node, and the others need them until the end",
	},
	Look: Look{Lane: LanePods, Text: "the lane Pods: who ended a pod that had to stay, and when? Then handler.log"},
}, noEviction)

func noEviction(j judge, v Verdict, c NoEviction) Verdict {
	switch {
	case c.DaemonPods:
		v = v.as("daemonPodsLeft", "daemon pods left on %s").requires("daemon pods neither evicted nor deleted while the node is there", c.Node)
		return j.stay(v, c.Node, "daemon", func(p story.Pod) bool { return history.OwnedBy(p.Events, "DaemonSet") })
	case c.Node != "":
		v = v.as("podsLeft", "%s pods left on %s").requires(c.Pods+" pods neither evicted nor deleted while the node is there", c.Pods, c.Node)
		return j.stay(v, c.Node, c.Pods, func(p story.Pod) bool { return p.In(c.Pods) })
	}
	v = v.as("noEviction", "no eviction").requires("no pod evicted anywhere, none deleted by the handler, and none of the workload deleted")
	taken := j.All(func(e history.Event) bool { return j.Takes(e) == story.Blamed })
	unclear := j.All(func(e history.Event) bool { return j.Takes(e) == story.Unclear })
	switch {
	case len(taken) > 0:
		return v.fail(describe(taken), capped(taken)...)
	case len(unclear) > 0:
		return v.unknown(unclearWho(unclear), capped(unclear)...)
	case !slices.ContainsFunc(j.Events, func(e history.Event) bool { return e.Kind == history.PodPresent }):
		return v.unknown("no pod was seen at all")
	case j.Unseen(j.End) != "":
		return v.unknown("none evicted: " + j.Unseen(j.End))
	}
	return v.pass("none evicted")
}

// stay requires that the chosen pods of the node are neither evicted nor deleted.
func (j judge) stay(v Verdict, name, which string, chosen func(story.Pod) bool) Verdict {
	node, why := j.Node(name)
	if why != "" {
		return v.unknown(why)
	}
	until := j.Stays(node)
	if j.History.Meta.Handler.DeletesNode {
		// Garbage collection takes the pods of a Node object that is gone.
		until = j.There(node)
	}
	var taken []history.Event
	pods := 0
	for _, p := range j.Pods {
		arrived, ok := p.Arrived(node)
		if !ok || arrived.At >= until || !chosen(p) {
			continue
		}
		pods++
		if e, ok := p.First(func(e history.Event) bool {
			return e.At < until && slices.Contains([]history.Kind{history.PodEvicted, history.PodTerminating, history.PodDeleted}, e.Kind)
		}); ok {
			taken = append(taken, e)
		}
	}
	v.Numbers = map[string]float64{strings.ReplaceAll(which, "-", "_") + "_pods": float64(pods), "taken": float64(len(taken))}
	switch {
	case pods == 0:
		return v.unknown(fmt.Sprintf("no %s pod was on %s", which, node))
	case len(taken) > 0:
		return v.fail(fmt.Sprintf("%d of %d %s pods taken: %s", len(taken), pods, which, describe(taken)), capped(taken)...)
	case j.Unseen(until) != "":
		return v.unknown("none taken: " + j.Unseen(until))
	}
	return v.pass(fmt.Sprintf("%d %s pods left alone", pods, which))
}
