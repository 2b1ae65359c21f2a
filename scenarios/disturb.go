package scenarios

import (
	"slices"

	"github.com/spotdrill/spotdrill/framework/strict"
)

// Disturb does something to the handler itself, and goes on once that is done.
// The handler is installed anew before the next scenario.
type Disturb struct {
	// Name is how checks refer to it.
	Name string `yaml:"name"`
	// Handler is what it meets.
	Handler string `yaml:"handler"`
	// For is how long a handler is cut off.
	For strict.Duration `yaml:"for,omitempty"`
	// Replicas is what a handler is scaled to, 1 to 5.
	Replicas int `yaml:"replicas,omitempty"`
}

// What can be done to a handler.
const (
	Kill   = "kill"    // SIGKILL for the processes of its containers; the kubelet starts them again
	Update = "update"  // a rolling update to the same image
	CutOff = "cut-off" // what it sends to the Kubernetes API is dropped for a time
	Scale  = "scale"   // another number of replicas
)

// Disturbances lists what can be done to a handler.
func Disturbances() []string { return []string{Kill, Update, CutOff, Scale} }

func (d Disturb) validate(where string, earlier []string, p *problems) {
	switch {
	case d.Name == "":
		p.add(where+".name", "must not be empty")
	case slices.Contains(earlier, d.Name):
		p.add(where+".name", "%q is used twice", d.Name)
	}
	p.oneOf(where+".handler", d.Handler, Disturbances())
	if (d.For > 0) != (d.Handler == CutOff) {
		p.add(where+".for", "goes with %s, and that one needs it", CutOff)
	}
	switch {
	case (d.Replicas != 0) != (d.Handler == Scale):
		p.add(where+".replicas", "goes with %s, and that one needs it", Scale)
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
