package scenarios

import (
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/strict"
)

// Reclaim takes the node's instance away as EC2 does: its container is killed
// without warning.
type Reclaim struct {
	// Node is the node whose instance is taken.
	Node string `yaml:"node"`
	// At is the notice at whose deadline this happens; left out, it happens at once.
	At string `yaml:"at,omitempty"`
	// After is how long to wait before. Not allowed with at.
	After strict.Duration `yaml:"after,omitempty"`
}

// String is the reclaim in words.
func (r Reclaim) String() string {
	if r.unannounced() {
		if r.After > 0 {
			return fmt.Sprintf("the instance of %s is taken%s, before any deadline", r.Node, detail("after", r.After))
		}
		return fmt.Sprintf("the instance of %s is taken without a notice", r.Node)
	}
	return fmt.Sprintf("the instance of %s is taken at the deadline of %s", r.Node, r.At)
}

func (r Reclaim) validate(where string, in *scope, p *problems) {
	in.reclaimed = append(in.reclaimed, r.Node)
	oneOf(p, where+".node", r.Node, in.nodes)
	if r.After > 0 && !r.unannounced() {
		p.add(where+".after", "is not allowed with at, which says when")
	}
	if !r.unannounced() {
		oneOf(p, where+".at", r.At, in.noticeNames())
	}
}

func (r Reclaim) effect() effect {
	return effect{nodes: []string{r.Node}, untilDeadline: !r.unannounced(), takes: r.After.D()}
}

func (r Reclaim) unannounced() bool { return r.At == "" }

// Unannounced reports whether a node is taken without a notice.
func (s Scenario) Unannounced() bool {
	return slices.ContainsFunc(stepsOf[Reclaim](s), Reclaim.unannounced)
}
