package scenarios

import "fmt"

// Grow sets how many virtual nodes the cluster has beside its own. kwok keeps them Ready, and no
// pod of the drill runs there. It continues when they are Ready, or gone.
type Grow struct {
	// Nodes is how many there are then; 0 removes all.
	Nodes int `yaml:"nodes"`
	// Cores is how many cores each has; left out, 4.
	Cores int `yaml:"cores,omitempty"`
}

// Bounds of Grow: each node has a range of 256 pod addresses, and EC2 has no larger instances.
const (
	maxVirtualNodes = 100
	maxVirtualCores = 896
	virtualCores    = 4
)

// String is the step in words.
func (g Grow) String() string {
	if g.Nodes == 0 {
		return "the virtual nodes leave the cluster"
	}
	return fmt.Sprintf("the cluster has %d virtual nodes with %d cores each", g.Nodes, g.OfCores())
}

// OfCores is how many cores each node has.
func (g Grow) OfCores() int {
	if g.Cores == 0 {
		return virtualCores
	}
	return g.Cores
}

func (g Grow) validate(where string, _ *scope, p *problems) {
	if g.Nodes < 0 || g.Nodes > maxVirtualNodes {
		p.add(where+".nodes", "%d is not within 0 to %d", g.Nodes, maxVirtualNodes)
	}
	if g.Cores < 0 || g.Cores > maxVirtualCores {
		p.add(where+".cores", "%d is not within 1 to %d", g.Cores, maxVirtualCores)
	}
}

func (g Grow) effect() effect { return effect{shared: true} }

// Grows reports whether the cluster has virtual nodes in the drill.
func (s Scenario) Grows() bool { return len(stepsOf[Grow](s)) > 0 }
