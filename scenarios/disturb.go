package scenarios

import (
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Disturb does something to the handler itself, and goes on once that is done.
// The handler is installed anew before the next scenario.
type Disturb struct {
	// Name is how checks refer to it.
	Name string `yaml:"name"`
	// Handler is what it meets.
	Handler history.Disturbance `yaml:"handler"`
	// For is how long a handler is cut off.
	For strict.Duration `yaml:"for,omitempty"`
	// Replicas is what a handler is scaled to, 1 to 5.
	Replicas int `yaml:"replicas,omitempty"`
}

func (d Disturb) validate(where string, earlier []string, p *problems) {
	switch {
	case d.Name == "":
		p.add(where+".name", "must not be empty")
	case slices.Contains(earlier, d.Name):
		p.add(where+".name", "%q is used twice", d.Name)
	}
	p.oneOf(where+".handler", string(d.Handler), history.Words(history.Disturbances()))
	if (d.For > 0) != (d.Handler == history.CutOffHandler) {
		p.add(where+".for", "goes with %s, and that one needs it", history.CutOffHandler)
	}
	switch {
	case (d.Replicas != 0) != (d.Handler == history.ScaleHandler):
		p.add(where+".replicas", "goes with %s, and that one needs it", history.ScaleHandler)
	case d.Replicas < 0 || d.Replicas > 5:
		p.add(where+".replicas", "%d is not within 1 to 5", d.Replicas)
	}
}

// disturbanceNames are those of the disturbances among the steps.
func disturbanceNames(steps []Step) []string {
	var out []string
	for _, step := range steps {
		if step.Disturb != nil {
			out = append(out, step.Disturb.Name)
		}
	}
	return out
}

// Disturbed is true where a step does something to the handler.
func (s Scenario) Disturbed() bool { return len(disturbanceNames(s.Steps)) > 0 }
