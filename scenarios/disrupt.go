package scenarios

import (
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Disrupt disrupts CoreDNS without a notice and continues when the API server has
// accepted it.
type Disrupt struct {
	// CoreDNS is the disruption; docs/disruptions.md describes each.
	CoreDNS history.Disruption `yaml:"coredns"`
	// Node is the node whose CoreDNS pods are disrupted; left out, all CoreDNS pods are,
	// at once.
	Node string `yaml:"node,omitempty"`
	// Replicas is the number that CoreDNS is scaled to, 1 to 10.
	Replicas int `yaml:"replicas,omitempty"`
	// Lameduck is what is set by the disruption lameduck, 0s to 60s.
	Lameduck strict.Duration `yaml:"lameduck,omitempty"`
	// After is how long to wait before the disruption.
	After strict.Duration `yaml:"after,omitempty"`
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
		history.ReloadDNS:     whose + " reload a changed Corefile",
		history.EditLameduck:  fmt.Sprintf("lameduck is edited to %s, and %s reload it", d.Lameduck.D(), whose),
		history.BreakCorefile: "the Corefile is broken, and " + whose + " refuse it",
		history.MisplaceDNS:   "CoreDNS gets a nodeSelector that no node satisfies",
	}[d.CoreDNS]
	if d.After > 0 {
		text += fmt.Sprintf(" after %s", d.After.D())
	}
	return text
}

func (d Disrupt) validate(where string, in *scope, p *problems) {
	oneOf(p, where+".coredns", d.CoreDNS, history.Disruptions())
	if d.Node != "" {
		oneOf(p, where+".node", d.Node, in.nodes)
	}
	switch d.CoreDNS {
	case history.DrainDNSNode:
		if d.Node == "" {
			p.add(where+".node", "is required with %s", d.CoreDNS)
		}
	case history.RestartDNS, history.ScaleDNS, history.MisplaceDNS:
		if d.Node != "" {
			p.add(where+".node", "is not allowed with %s, which acts on all pods", d.CoreDNS)
		}
	}
	if d.CoreDNS != history.EditLameduck && d.Lameduck != 0 {
		p.add(where+".lameduck", "is only allowed with %s", history.EditLameduck)
	}
	p.upTo(where+".lameduck", d.Lameduck.D(), maxLameduck)
	p.onlyWith(where+".replicas", d.Replicas != 0, d.CoreDNS == history.ScaleDNS, history.ScaleDNS)
	if d.CoreDNS == history.ScaleDNS && d.Replicas != 0 {
		validateReplicas(where+".replicas", d.Replicas, p)
	}
}

// maxLameduck is twice the longest that guides advise.
const maxLameduck = time.Minute

func (d Disrupt) effect() effect {
	return effect{nodes: []string{d.Node}, takes: d.After.D(), shared: true, allDNSPods: d.Node == ""}
}

// spotWorkers is how many of the cluster's fixed workers are spot nodes (kind/cluster.yaml).
const spotWorkers = 3

// KeepsDNSPod reports whether some CoreDNS pod stays throughout the drill: no step
// or auto scaling acts on all of them, and the steps do not act on all nodes that they run on.
func (s Scenario) KeepsDNSPod() bool {
	fixed := slices.DeleteFunc(s.Targets(), func(name string) bool {
		return s.Nodes[name].Launched != nil || s.Nodes[name].Capacity != string(coredns.OnSpot)
	})
	if s.CoreDNS.Placement == coredns.OnSpot && len(fixed) >= spotWorkers || s.CoreDNS.AutoScaling != (coredns.AutoScaling{}) {
		return false
	}
	return !slices.ContainsFunc(s.effects(), func(e effect) bool { return e.allDNSPods })
}
