package scenarios

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/strict"
)

// BudgetChange changes minAvailable of a PodDisruptionBudget, or removes a second one,
// some time after a notice.
type BudgetChange struct {
	// Name identifies the change in checks.
	Name string `yaml:"name"`
	// Pods is the group of pods whose budget changes.
	Pods string `yaml:"pods"`
	// MinAvailable is the new value.
	MinAvailable int `yaml:"minAvailable"`
	// Remove is the name of a second budget of the pods, which is deleted.
	Remove string `yaml:"remove,omitempty"`
	// At is the notice that the time counts from.
	At string `yaml:"at"`
	// After is the time from the notice to the change.
	After strict.Duration `yaml:"after"`
}

// String is the change in words.
func (c BudgetChange) String() string {
	if c.Remove != "" {
		return fmt.Sprintf("budget %s of %s is removed, %s after %s", c.Remove, c.Pods, c.After.D(), c.At)
	}
	return fmt.Sprintf("budget of %s: minAvailable %d, %s after %s", c.Pods, c.MinAvailable, c.After.D(), c.At)
}

func (c BudgetChange) validate(where string, in *scope, p *problems) {
	in.budgetChanges.define(where, c.Name, p)
	oneOf(p, where+".pods", c.Pods, in.budgeted)
	oneOf(p, where+".at", c.At, in.noticeNames())
	p.atLeast0(where+".minAvailable", c.MinAvailable)
	if c.Remove != "" {
		oneOf(p, where+".remove", c.Remove, in.second)
	}
}

func (c BudgetChange) effect() effect { return effect{afterNotice: c.After.D()} }
