package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/strict"
)

// scope is what the fields of a step or a check can refer to: what the scenario
// declares, and what the steps before it define. To the checks, all steps are earlier, and they
// see the exported fields.
type scope struct {
	Scenario Scenario
	Nodes    []string // the names under nodes

	Sent          names                    // notices and messages
	Named         map[string][]string      // the nodes of notices, by the names of these
	Floods        map[string]time.Duration // how long each lasts
	Reclaimed     []string                 // nodes whose instance is taken
	Faults        names                    // of every target
	begun         []Fault                  // the same
	BudgetChanges names                    // steps that change a budget
	Disturbances  names                    // of the handler
	Reconfigured  names                    // steps that configure the handler
	Deletions     names                    // of Node objects by an operator
	DaemonSets    names                    // that steps create
	Upgraded      []string                 // add-ons
	Disrupted     []string                 // nodes that the handler is to remove without a notice
}

func (s Scenario) scope() *scope {
	return &scope{Scenario: s, Nodes: slices.Sorted(maps.Keys(s.Nodes)), Named: map[string][]string{}, Floods: map[string]time.Duration{}}
}

// names are those of steps, in the order of the steps.
type names []string

// define adds the name of the step at that path. Names are unique.
func (n *names) define(where, name string, p *problems) {
	switch {
	case name == "":
		p.add(where+".name", "must not be empty")
	case slices.Contains(*n, name):
		p.add(where+".name", "%q is used twice", name)
	}
	*n = append(*n, name)
}

// Notices lists the notices in the order of their steps.
func (in *scope) Notices() []string {
	return slices.DeleteFunc(slices.Clone(in.Sent), func(name string) bool {
		_, isNotice := in.Named[name]
		return !isNotice
	})
}

// launching are the steps because of which a handler launches instances.
func (in *scope) launching() []string {
	return slices.Concat(in.Notices(), in.Reconfigured, in.Deletions)
}

// needsSecurityGroups reports a problem if no pods depend on the add-on vpc-cni.
func (in *scope) needsSecurityGroups(where string, p *problems) {
	if !in.Scenario.Workload.SecurityGroups {
		p.add(where, "needs workload.securityGroups, whose pods depend on the add-on %s", VPCCNIAddOn)
	}
}

// needsProbe reports a problem if the scenario has no probe.
func (in *scope) needsProbe(where string, p *problems) {
	if in.Scenario.Probe == nil {
		p.add(where, "needs a probe")
	}
}

// node checks the field node of a check.
func (in *scope) node(where, name string, p *problems) { oneOf(p, where+".node", name, in.Nodes) }

// ending are the names of what begins with one step and ends later.
func (in *scope) ending() []string { return slices.Concat(in.Faults, in.Disturbances) }

// once reports a problem if the step at that path has a name of other steps.
func (in *scope) once(where, name string, others names, p *problems) {
	if name != "" && slices.Contains(others, name) {
		p.add(where+".name", "%q is used twice", name)
	}
}

func (s Scenario) validateSteps(in *scope, p *problems) {
	if len(s.Steps) == 0 {
		p.add("steps", "must not be empty")
	}
	if s.Settle <= 0 {
		p.add("settle", "must be more than 0s: what happens after the last step is part of the drill")
	}
	for i, step := range s.Steps {
		where := fmt.Sprintf("steps[%d]", i)
		name, value, err := strict.Only(step)
		if err != nil {
			p.add(where, "%v", err)
			continue
		}
		value.(stepKind).validate(where+"."+name, in, p)
	}
}
