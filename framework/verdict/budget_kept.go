package verdict

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// BudgetKept has the parameters of checkBudgetKept.
type BudgetKept struct {
	NodeNotice `yaml:",inline"`
	// Pods is a group of the workload that has a budget.
	Pods string `yaml:"pods"`
}

// Validate checks the parameters.
func (c BudgetKept) Validate(in *scenarios.Scope) {
	in.BudgetFor(c.Node, c.Notice, c.Pods)
}

// DecidedBy is how long it needs the recording.
func (c BudgetKept) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Absent(t.Reaction()).On(c.Node, t)
}

var checkBudgetKept = by(Kind{
	ID: "budgetKept", Title: "budget of %s kept",
	Requires: "The drain never leaves fewer of the pods Ready than their PodDisruptionBudget requires, from the notice until the instance goes.",
	Fix:      "evict by the Eviction API, which respects budgets, and never by deleting pods",
	Look:     Look{Lane: LanePods, Text: "the lane Pods: how many were terminating at the same time, and were they evicted or deleted?"},
}, budgetKept)

func budgetKept(j judge, v Verdict, c BudgetKept) Verdict {
	v = v.requires("the drain never leaves fewer pods Ready than their PodDisruptionBudget requires", c.Pods)
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	until := j.Stays(node)
	n := j.BudgetOf(node, c.Pods)
	lowest, below := -1, false
	var before, unclear history.Event
	missing := 0
	for _, e := range j.Events {
		if e.At >= until {
			break
		}
		if e.At >= put.At && lowest < 0 {
			switch here, room := len(j.toLeave(node, put, c.Pods)), n.Ready()-n.Required; {
			case !n.Seen:
				return v.unknown("the history shows no budget")
			case room < 0:
				return v.unknown(fmt.Sprintf("%d were Ready before the notice, and the budget requires %d", n.Ready(), n.Required), put)
			case here <= room:
				return v.unknown(fmt.Sprintf("the budget had room for all %s on %s, so that it was kept proves nothing", history.Count(here, "pod"), node), put)
			}
			lowest = n.Ready()
		}
		n.Follow(e)
		if lowest < 0 {
			continue
		}
		lowest = min(lowest, n.Ready())
		below = below || n.Ready() < n.Required
		switch n.Exceeds(e) {
		case story.Unclear:
			if unclear.Kind == "" {
				unclear, missing = e, n.Others()
			}
		case story.Blamed:
			v.Numbers = map[string]float64{"lowest": float64(lowest), "min_available": float64(n.Required)}
			return v.fail(fmt.Sprintf("%d Ready of %d required, %s after the notice: %s %s", n.Ready(), n.Required,
				history.Seconds(e.At-put.At), e.Pod, e.Kind), append([]history.Event{put}, known(before, e)...)...)
		}
		if n.Has(e) {
			before = e
		}
	}
	v.Numbers = map[string]float64{"lowest": float64(lowest), "min_available": float64(n.Required)}
	switch {
	case lowest < 0:
		return v.unknown("the node was gone when the notice was put", put)
	case j.Unseen(until) != "":
		return v.unknown("kept: "+j.Unseen(until), put)
	case unclear.Kind != "":
		return v.unknown(fmt.Sprintf("%s was evicted when %d others were not Ready for another reason, so whether the budget had room for it is not known", unclear.Pod, missing), put, unclear)
	case below:
		return v.pass(fmt.Sprintf("never fewer than %d Ready; fewer than required only by pods that the drain did not take", lowest), put)
	}
	return v.pass(fmt.Sprintf("never fewer than %d Ready", lowest), put)
}
