package scenarios

import (
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/strict"
)

// Reclaim removes the node's instance: its container is killed without warning, or shut down.
type Reclaim struct {
	// Node is the node whose instance is taken.
	Node string `yaml:"node"`
	// At is the notice at whose deadline this happens; left out, it happens at once.
	At string `yaml:"at,omitempty"`
	// After is how long to wait before. Not allowed with at.
	After strict.Duration `yaml:"after,omitempty"`
	// Shutdown asks the node's operating system to power off, as EC2 does, in place of killing it: its
	// services are stopped, and the kubelet may end the pods gracefully (shutdownGracePeriod).
	Shutdown bool `yaml:"shutdown,omitempty"`
}

// String is the reclaim in words.
func (r Reclaim) String() string {
	text := r.taken()
	if r.Shutdown {
		text += ", by a shutdown of its operating system"
	}
	return text
}

func (r Reclaim) taken() string {
	if r.unannounced() {
		if r.After > 0 {
			return fmt.Sprintf("the instance of %s is taken%s, before any deadline", r.Node, detail("after", r.After))
		}
		return fmt.Sprintf("the instance of %s is taken without a notice", r.Node)
	}
	return fmt.Sprintf("the instance of %s is taken at the deadline of %s", r.Node, r.At)
}

func (r Reclaim) validate(where string, in *scope, p *problems) {
	in.Reclaimed = append(in.Reclaimed, r.Node)
	oneOf(p, where+".node", r.Node, in.Nodes)
	if r.After > 0 && !r.unannounced() {
		p.add(where+".after", "is not allowed with at, which shows when")
	}
	if !r.unannounced() {
		oneOf(p, where+".at", r.At, in.Notices())
	}
}

func (r Reclaim) effect() effect {
	return effect{nodes: []string{r.Node}, untilDeadline: !r.unannounced(), takes: r.After.D(), real: true}
}

func (r Reclaim) unannounced() bool { return r.At == "" }

// ShutDown returns the nodes that are shut down, by their names in the scenario, and for how long
// their kubelets delay that.
func (s Scenario) ShutDown() map[string]Shutdown {
	out := map[string]Shutdown{}
	for _, r := range stepsOf[Reclaim](s) {
		if r.Shutdown {
			out[r.Node] = s.Nodes[r.Node].Prepared.shutdown()
		}
	}
	return out
}

// Unannounced reports whether a node is taken without a notice.
func (s Scenario) Unannounced() bool {
	return slices.ContainsFunc(stepsOf[Reclaim](s), Reclaim.unannounced)
}

// detail is a duration in words, and nothing if it is 0.
func detail(name string, d strict.Duration) string {
	if d <= 0 {
		return ""
	}
	return fmt.Sprintf(" %s %s", name, d.D())
}
