package scenarios

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Disrupt does something to CoreDNS that no notice announces, and goes on once
// the API has taken it.
type Disrupt struct {
	// CoreDNS is what it meets.
	CoreDNS history.Disruption `yaml:"coredns"`
	// Node is the one whose CoreDNS pods it is done to; empty means all of them, at
	// once.
	Node string `yaml:"node,omitempty"`
	// Replicas is what CoreDNS is scaled to, 1 to 10.
	Replicas int `yaml:"replicas,omitempty"`
	// After is how long to wait before.
	After strict.Duration `yaml:"after,omitempty"`
}

func (d Disrupt) validate(where string, nodes []string, p *problems) {
	p.oneOf(where+".coredns", string(d.CoreDNS), history.Words(history.Disruptions()))
	if d.Node != "" {
		p.oneOf(where+".node", d.Node, nodes)
	}
	switch d.CoreDNS {
	case history.DrainDNSNode:
		if d.Node == "" {
			p.add(where+".node", "%s needs it", history.DrainDNSNode)
		}
	case history.RestartDNS, history.ScaleDNS:
		if d.Node != "" {
			p.add(where+".node", "%s is done to all pods", d.CoreDNS)
		}
	}
	switch {
	case (d.Replicas != 0) != (d.CoreDNS == history.ScaleDNS):
		p.add(where+".replicas", "goes with %s, and that one needs it", history.ScaleDNS)
	case d.Replicas < 0 || d.Replicas > 10:
		p.add(where+".replicas", "%d is not within 1 to 10", d.Replicas)
	}
}

// String is the disruption in words.
func (d Disrupt) String() string {
	whose := "all CoreDNS pods"
	if d.Node != "" {
		whose = "the CoreDNS pods of " + d.Node
	}
	text := map[history.Disruption]string{
		history.DeleteDNSPods: whose + " are deleted",
		history.KillDNSPods:   whose + " get SIGKILL",
		history.RestartDNS:    "CoreDNS is restarted pod by pod",
		history.DrainDNSNode:  d.Node + " is drained as kubectl does",
		history.ScaleDNS:      fmt.Sprintf("CoreDNS is scaled to %d", d.Replicas),
	}[d.CoreDNS]
	if d.After > 0 {
		text += fmt.Sprintf(" after %s", d.After.D())
	}
	return text
}

// KeepsDNSPod is true where some CoreDNS pod stays throughout the drill: nothing
// is done to all of them.
func (s Scenario) KeepsDNSPod() bool {
	for _, step := range s.Steps {
		if step.Disrupt != nil && step.Disrupt.Node == "" {
			return false
		}
	}
	return true
}
