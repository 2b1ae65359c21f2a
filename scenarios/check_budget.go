package scenarios

import "github.com/spotdrill/spotdrill/framework/strict"

// BudgetKept requires that, from the notice until the node's instance is gone, as many
// of these pods as their PodDisruptionBudget requires are Ready and not terminating.
type BudgetKept struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
	// Pods is a group of the workload that has a budget.
	Pods string `yaml:"pods"`
}

func (c BudgetKept) validate(where string, in *scope, p *problems) {
	in.budgetFor(where, c.Node, c.Notice, c.Pods, p)
}

func (c BudgetKept) observed(t Times) observation { return absent(t.reaction()).on(c.Node, t) }

// Resumed requires that the drain continues in time after a budget has changed: a pod of
// the node that the budget had protected is terminating.
type Resumed struct {
	Node string `yaml:"node"`
	// Budget is a budget step.
	Budget string          `yaml:"budget"`
	Within strict.Duration `yaml:"within"`
}

func (c Resumed) validate(where string, in *scope, p *problems) {
	in.node(where, c.Node, p)
	oneOf(p, where+".budget", c.Budget, in.budgetChanges)
	p.positive(where+".within", c.Within)
}

func (c Resumed) observed(t Times) observation {
	return happens(t.Changed[c.Budget]+c.Within.D()).on(c.Node, t)
}

// BlockedReported requires that the handler reports, before the notice's deadline, that
// a budget blocks the drain: with a Kubernetes event about the node or about a blocked
// pod, which names such a pod or the budget and reports that the eviction was refused. What
// the handler does at the deadline is reported and not judged.
type BlockedReported struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
	Pods   string `yaml:"pods"`
}

func (c BlockedReported) validate(where string, in *scope, p *problems) {
	in.podsFor(where, c.Node, c.Notice, c.Pods, p)
}

func (c BlockedReported) observed(t Times) observation {
	return happens(t.Deadlines[c.Notice]).on(c.Node, t)
}
