package scenarios

import (
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

// Corefile is what a step can make of the Corefile.
type Corefile string

// What the Corefile can become.
const (
	SlowCorefile   Corefile = "slow"   // its reload takes 5 s
	BrokenCorefile Corefile = "broken" // it cannot be read
)

// Corefiles lists them.
func Corefiles() []Corefile { return []Corefile{SlowCorefile, BrokenCorefile} }

// Nowhere is the placement that no node satisfies.
const Nowhere = "nowhere"

// dnsActions are done to CoreDNS without a notice. The drill continues when the API server has accepted
// them.
func dnsActions() map[Verb]action {
	return map[Verb]action{
		Delete:  onDNSPods(" are deleted"),
		Kill:    onDNSPods(" get SIGKILL"),
		Restart: {text: text("CoreDNS is restarted pod by pod"), effect: allDNSPods},
		Scale: {
			needs: []string{"replicas"}, effect: allDNSPods,
			text: func(d Do) string { return fmt.Sprintf("CoreDNS is scaled to %d", d.Replicas) },
			validate: func(d Do, where string, _ *scope, p *problems) {
				validateReplicas(where+".replicas", d.Replicas, p)
			},
		},
		Configure: {
			allows: []string{"node", "lameduck", "corefile", "placement"}, effect: allDNSPods,
			text: func(d Do) string {
				switch {
				case d.Placement != "":
					return "CoreDNS gets a nodeSelector that no node satisfies"
				case d.Corefile == BrokenCorefile:
					return "the Corefile is broken, and " + dnsPods(d) + " refuse it"
				case d.Corefile == SlowCorefile:
					return dnsPods(d) + " reload a changed Corefile"
				case d.Lameduck != nil:
					return fmt.Sprintf("lameduck is edited to %s, and %s reload it", d.Lameduck.D(), dnsPods(d))
				}
				return "nothing of CoreDNS is configured"
			},
			validate: validateDNSConfigured,
		},
	}
}

// onDNSPods is an action on the pods of a node, or on all of them.
func onDNSPods(what string) action {
	return action{allows: []string{"node"}, effect: allDNSPods, text: func(d Do) string { return dnsPods(d) + what }}
}

func dnsPods(d Do) string {
	if d.Node != "" {
		return "the CoreDNS pods of " + d.Node
	}
	return "all CoreDNS pods"
}

// allDNSPods is the effect of an action on all CoreDNS pods, unless it names a node.
func allDNSPods(d Do) effect {
	return effect{nodes: []string{d.Node}, alone: []Resource{ClusterDNS}, allDNSPods: d.Node == ""}
}

func validateDNSConfigured(d Do, where string, _ *scope, p *problems) {
	if count(d.Lameduck != nil, d.Corefile != "", d.Placement != "") != 1 {
		p.add(where, "requires exactly one of: corefile, lameduck, placement")
	}
	if d.Lameduck != nil {
		p.upTo(where+".lameduck", d.Lameduck.D(), maxLameduck)
	}
	oneOfIfSet(p, where+".corefile", d.Corefile, Corefiles())
	if d.Placement != "" {
		oneOf(p, where+".placement", d.Placement, []string{Nowhere})
		if d.Node != "" {
			p.add(where+".node", "is not allowed with placement, which is that of all pods")
		}
	}
}

// maxLameduck is twice the longest that guides advise.
const maxLameduck = time.Minute

// spotWorkers is how many of the cluster's fixed workers are spot nodes (kind/cluster.yaml).
const spotWorkers = 3

// KeepsDNSPod reports whether some CoreDNS pod stays throughout the drill: there are several, no step
// or auto scaling acts on all of them, and the steps do not act on all nodes that they run on.
func (s Scenario) KeepsDNSPod() bool {
	if s.CoreDNS.Replicas < 2 {
		return false
	}
	fixed := slices.DeleteFunc(s.Targets(), func(name string) bool {
		return s.Nodes[name].Launched != nil || s.Nodes[name].Capacity != string(coredns.OnSpot)
	})
	if s.CoreDNS.Placement == coredns.OnSpot && len(fixed) >= spotWorkers || s.CoreDNS.AutoScaling != (coredns.AutoScaling{}) {
		return false
	}
	return !slices.ContainsFunc(s.effects(), func(e effect) bool { return e.allDNSPods })
}
