package scenarios

import (
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Operate does something to a node, as an operator or the cloud does, and continues when
// that is done.
type Operate struct {
	// Name identifies the step in the check removed.
	Name string `yaml:"name,omitempty"`
	// Action is the operation; docs/nodes.md describes each.
	Action history.Operation `yaml:"action"`
	Node   string            `yaml:"node"`
	// Meanwhile lets the drill continue while a node is drained. The drain is over when the steps
	// are, at the latest.
	Meanwhile bool `yaml:"meanwhile,omitempty"`
	// Timeout is how long a drain tries to evict pods, as kubectl drain --timeout does; left out, it
	// is 2m.
	Timeout strict.Duration `yaml:"timeout,omitempty"`
	// Force deletes the pods that a drain could not evict in that time, as the forced update of a
	// managed node group does. No budget applies to that.
	Force bool `yaml:"force,omitempty"`
}

// maxDrain bounds the time of a drain.
const maxDrain = 2 * time.Minute

// String is the operation in words.
func (o Operate) String() string {
	text := map[history.Operation]string{
		history.DrainNode:    o.Node + " is drained as kubectl does",
		history.UncordonNode: o.Node + " is uncordoned",
		history.ReadmitNode:  o.Node + " is uncordoned, and the handler's taints are removed",
		history.DeleteNode:   "the Node object of " + o.Node + " is deleted",
		history.RejoinNode:   o.Node + " joins the cluster again, as the same instance",
		history.RejoinNoID:   o.Node + " joins the cluster again, without a providerID",
		history.StopKubelet:  "the kubelet of " + o.Node + " stops",
		history.StartAgain:   "the instance of " + o.Node + " starts again",
		history.Uninitialize: o.Node + " loses the labels that the handler's pods need",
		history.Initialize:   o.Node + " gets the labels that the handler's pods need",
	}[o.Action]
	if o.Timeout > 0 {
		text += fmt.Sprintf(", for at most %s", o.Timeout.D())
	}
	if o.Force {
		text += ", and the pods that are left are deleted"
	}
	if o.Meanwhile {
		text += ", and the drill continues meanwhile"
	}
	return text
}

func (o Operate) validate(where string, in *scope, p *problems) {
	oneOf(p, where+".action", o.Action, history.Operations())
	in.node(where, o.Node, p)
	for field, given := range map[string]bool{"meanwhile": o.Meanwhile, "timeout": o.Timeout != 0, "force": o.Force} {
		if given && o.Action != history.DrainNode {
			p.add(where+"."+field, "is only allowed with %s", history.DrainNode)
		}
	}
	p.upTo(where+".timeout", o.Timeout.D(), maxDrain)
	if o.Name != "" {
		if o.Action != history.DeleteNode {
			p.add(where+".name", "is only allowed with %s", history.DeleteNode)
		}
		in.deletions.define(where, o.Name, p)
		for _, others := range []names{in.faults, in.disturbances, in.sent, in.reconfigured} {
			in.once(where, o.Name, others, p)
		}
		in.disrupted = append(in.disrupted, o.Node)
	}
	if in.capacity[o.Node] == onDemand && !in.launched[o.Node] {
		p.add(where+".node", "%q has capacity %s, where the handler and the recording proxy run", o.Node, onDemand)
	}
}

// A node that is deleted or down, or whose kubelet stops, keeps its drill's pods: the drill beside
// it would wait for the node too.
func (o Operate) effect() effect {
	return effect{nodes: []string{o.Node}, shared: o.Action != history.UncordonNode && o.Action != history.ReadmitNode}
}

// Initializes reports whether a step changes if the handler's pods may be on a node.
func (s Scenario) Initializes() bool {
	return slices.ContainsFunc(s.Operations(), func(o Operate) bool {
		return o.Action == history.Uninitialize || o.Action == history.Initialize
	})
}

// Operations returns the operations of the steps.
func (s Scenario) Operations() []Operate { return stepsOf[Operate](s) }

// DeletesUnnoticed reports whether a step deletes the Node object of a running instance before
// any notice names it, as if it had not joined yet. A handler whose finalizer holds that
// object would drain the node instead.
func (s Scenario) DeletesUnnoticed() bool {
	var noticed []string
	for _, step := range s.Steps {
		switch do := step.Do().(type) {
		case Notice:
			noticed = append(noticed, do.Nodes...)
		case Operate:
			if do.Action == history.DeleteNode && do.Name == "" && !slices.Contains(noticed, do.Node) {
				return true
			}
		}
	}
	return false
}
