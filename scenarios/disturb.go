package scenarios

import (
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Disturb disturbs the handler under test and continues when that is done. The
// handler gets new pods before the next drill.
type Disturb struct {
	// Name identifies the disturbance in checks.
	Name string `yaml:"name"`
	// Handler is the disturbance; docs/disturbances.md describes each.
	Handler history.Disturbance `yaml:"handler"`
	// For is how long the handler is cut off from the Kubernetes API, or stopped.
	For strict.Duration `yaml:"for,omitempty"`
	// Meanwhile lets the drill continue while the handler is cut off or stopped. The
	// disturbance is over when the steps are, at the latest.
	Meanwhile bool `yaml:"meanwhile,omitempty"`
	// Replicas is the number that the handler is scaled to, 1 to 5.
	Replicas int `yaml:"replicas,omitempty"`
	// Node is where the handler is moved to. Its next pods may run on any spot node.
	Node string `yaml:"node,omitempty"`
}

// onDemand is the capacity of the nodes where the handler and the recording proxy run.
const onDemand = string(coredns.OnOnDemand)

// String is the disturbance in words.
func (d Disturb) String() string {
	what := map[history.Disturbance]string{
		history.KillHandler: "is killed", history.UpdateHandler: "is updated",
		history.CutOffHandler: "is cut off from the Kubernetes API", history.ScaleHandler: "is scaled",
		history.TerminateHandler: "gets SIGTERM", history.RetireHandler: "loses the replica that drains", history.MoveHandler: "is moved",
		history.StopHandler: "has no pod",
	}[d.Handler]
	text := fmt.Sprintf("disturbance %s: the handler %s", d.Name, what)
	if d.For > 0 {
		text += " for " + d.For.D().String()
	}
	if d.Meanwhile {
		text += ", and the drill continues meanwhile"
	}
	if d.Replicas > 0 {
		text += fmt.Sprintf(" to %d replicas", d.Replicas)
	}
	if d.Node != "" {
		text += " to " + d.Node
	}
	return text
}

func (d Disturb) validate(where string, in *scope, p *problems) {
	in.disturbances.define(where, d.Name, p)
	in.once(where, d.Name, in.faults, p)
	oneOf(p, where+".handler", d.Handler, history.Disturbances())
	lasts := d.Handler == history.CutOffHandler || d.Handler == history.StopHandler
	p.onlyWith(where+".for", d.For > 0, lasts, history.CutOffHandler+" and "+history.StopHandler)
	if d.Meanwhile && !lasts {
		p.add(where+".meanwhile", "is only allowed with %s and %s", history.CutOffHandler, history.StopHandler)
	}
	p.onlyWith(where+".replicas", d.Replicas != 0, d.Handler == history.ScaleHandler, history.ScaleHandler)
	if d.Handler == history.ScaleHandler && d.Replicas != 0 && (d.Replicas < 0 || d.Replicas > 5) {
		p.add(where+".replicas", "%d is not within 1 to 5", d.Replicas)
	}
	p.onlyWith(where+".node", d.Node != "", d.Handler == history.MoveHandler, history.MoveHandler)
	if d.Node != "" {
		in.node(where, d.Node, p)
		if in.capacity[d.Node] == onDemand {
			p.add(where+".node", "%q has capacity %s, where the handler is anyway", d.Node, onDemand)
		}
	}
	if !in.handler {
		p.add(where, "the scenario has no handler")
	}
}

func (d Disturb) effect() effect {
	e := effect{nodes: []string{d.Node}, shared: true}
	if d.Meanwhile {
		e.begins, e.lasts = d.Name, d.For.D()
	}
	return e
}

// Disturbed reports whether a step disturbs the handler, or takes a pod of it off a node.
func (s Scenario) Disturbed() bool { return len(stepsOf[Disturb](s)) > 0 || s.Initializes() }

// MovesHandler reports whether a step changes where the handler runs.
func (s Scenario) MovesHandler() bool {
	return slices.ContainsFunc(stepsOf[Disturb](s), func(d Disturb) bool { return d.Handler == history.MoveHandler })
}
