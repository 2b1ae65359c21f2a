package scenarios

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Notice sends a notice through EventBridge. Its deadline starts to run.
type Notice struct {
	// Name identifies the notice in later steps and in checks.
	Name string `yaml:"name"`
	// Type is the type of the notice.
	Type history.NoticeType `yaml:"type"`
	// Nodes are the nodes whose instances the notice names. A type that names only one
	// instance is sent once for each node.
	Nodes []string `yaml:"nodes,omitempty"`
	// Instance is the id of an instance that is not in the cluster.
	Instance string `yaml:"instance,omitempty"`
	// InstanceLike is a node. The notice names an instance that is not in the cluster
	// and whose id differs from that node's only in its last character.
	InstanceLike string `yaml:"instanceLike,omitempty"`
	// Action is what a spot interruption announces; left out, it is terminate.
	Action string `yaml:"action,omitempty"`
	// State is the new state in a state change, such as stopping or running.
	State string `yaml:"state,omitempty"`
}

// NoticeActions lists what a spot interruption can announce.
func NoticeActions() []string { return []string{"terminate", "stop", "hibernate"} }

// String is the notice in words.
func (n Notice) String() string {
	text := "notice " + n.Name + ": " + string(n.Type)
	if detail := cmp.Or(n.Action, n.State); detail != "" {
		text += " (" + detail + ")"
	}
	whom := slices.Clone(n.Nodes)
	if n.Instance != "" {
		whom = append(whom, "instance "+n.Instance+", which is not in the cluster")
	}
	if n.InstanceLike != "" {
		whom = append(whom, "an instance that is not in the cluster, with an id like that of "+n.InstanceLike)
	}
	return text + " for " + strings.Join(whom, ", ")
}

func (n Notice) validate(where string, in *scope, p *problems) {
	in.sent.define(where, n.Name, p)
	in.notices[n.Name] = n.Nodes
	oneOf(p, where+".type", n.Type, history.NoticeTypes())
	for _, node := range n.Nodes {
		oneOf(p, where+".nodes", node, in.nodes)
	}
	if count(len(n.Nodes) > 0, n.Instance != "", n.InstanceLike != "") != 1 {
		p.add(where, "requires exactly one of: instance, instanceLike, nodes")
	}
	if n.InstanceLike != "" {
		oneOf(p, where+".instanceLike", n.InstanceLike, in.nodes)
	}
	if n.Action != "" {
		oneOf(p, where+".action", n.Action, NoticeActions())
	}
	p.onlyWith(where+".state", n.State != "", n.Type == history.StateChange, "type state-change")
	if in.deadline.Fast <= 0 || in.deadline.Full <= 0 {
		p.add("deadline", "a scenario with a notice needs fast and full")
	}
}

func (n Notice) effect() effect { return effect{nodes: n.Nodes} }
