package scenarios

import (
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/feature"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Reconfigure changes the handler's objects to those of the configuration that its description
// has for the feature of the scenario. With them it may remove nodes without a notice. The
// handler is installed anew before the next drill.
type Reconfigure struct {
	// Name identifies the step in checks.
	Name string `yaml:"name"`
	// Disrupts are the nodes that the handler removes then; left out, none.
	Disrupts []string `yaml:"disrupts,omitempty"`
	// After is how long to wait before the change. Karpenter leaves a node alone for 20 s after
	// it expected a pod there, and looks at several nodes together only when something changes,
	// or after five minutes.
	After strict.Duration `yaml:"after,omitempty"`
}

// String is the step in words.
func (r Reconfigure) String() string {
	text := "reconfiguration " + r.Name + detail("after", r.After)
	if len(r.Disrupts) > 0 {
		text += ": the handler is to remove " + strings.Join(r.Disrupts, ", ")
	}
	return text
}

func (r Reconfigure) validate(where string, in *scope, p *problems) {
	in.reconfigured.define(where, r.Name, p)
	for _, others := range []names{in.faults, in.disturbances, in.sent} {
		in.once(where, r.Name, others, p)
	}
	for _, name := range r.Disrupts {
		oneOf(p, where+".disrupts", name, in.nodes)
	}
	in.disrupted = append(in.disrupted, r.Disrupts...)
	if !slices.Contains(feature.Reconfigured(), in.feature) {
		p.add(where, "requires as feature one of: %s", strings.Join(feature.Reconfigured(), ", "))
	}
}

// removal is how long it takes until a node that the handler removes without a notice is
// drained: Karpenter looks every 10 s, validates for 15 s, and waits for the replacement.
const removal = time.Minute

func (r Reconfigure) effect() effect {
	return effect{takes: r.After.D() + removal*time.Duration(len(r.Disrupts)), nodes: r.Disrupts, shared: true, allDNSPods: len(r.Disrupts) > 0}
}

// Reconfigures reports whether a step changes the handler's objects.
func (s Scenario) Reconfigures() bool { return len(stepsOf[Reconfigure](s)) > 0 }
