package scenarios

import (
	"fmt"

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
	// For is how long the handler is cut off from the Kubernetes API.
	For strict.Duration `yaml:"for,omitempty"`
	// Meanwhile lets the drill continue while the handler is cut off. It is over when the
	// steps are, at the latest.
	Meanwhile bool `yaml:"meanwhile,omitempty"`
	// Replicas is the number that the handler is scaled to, 1 to 5.
	Replicas int `yaml:"replicas,omitempty"`
}

// String is the disturbance in words.
func (d Disturb) String() string {
	what := map[history.Disturbance]string{
		history.KillHandler: "is killed", history.UpdateHandler: "is updated",
		history.CutOffHandler: "is cut off from the Kubernetes API", history.ScaleHandler: "is scaled",
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
	return text
}

func (d Disturb) validate(where string, in *scope, p *problems) {
	in.disturbances.define(where, d.Name, p)
	in.once(where, d.Name, in.faults, p)
	oneOf(p, where+".handler", d.Handler, history.Disturbances())
	p.onlyWith(where+".for", d.For > 0, d.Handler == history.CutOffHandler, history.CutOffHandler)
	if d.Meanwhile && d.Handler != history.CutOffHandler {
		p.add(where+".meanwhile", "is only allowed with %s", history.CutOffHandler)
	}
	p.onlyWith(where+".replicas", d.Replicas != 0, d.Handler == history.ScaleHandler, history.ScaleHandler)
	if d.Handler == history.ScaleHandler && d.Replicas != 0 && (d.Replicas < 0 || d.Replicas > 5) {
		p.add(where+".replicas", "%d is not within 1 to 5", d.Replicas)
	}
	if !in.handler {
		p.add(where, "the scenario has no handler")
	}
}

func (d Disturb) effect() effect {
	if d.Meanwhile {
		return effect{shared: true, begins: d.Name, lasts: d.For.D()}
	}
	return effect{shared: true}
}

// Disturbed reports whether a step disturbs the handler.
func (s Scenario) Disturbed() bool { return len(stepsOf[Disturb](s)) > 0 }
