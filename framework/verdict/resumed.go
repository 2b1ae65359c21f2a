package verdict

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Resumed has the parameters of checkResumed.
type Resumed struct {
	Node string `yaml:"node"`
	// Budget is a budget step.
	Budget string          `yaml:"budget"`
	Within strict.Duration `yaml:"within"`
}

// Validate checks the parameters.
func (c Resumed) Validate(in *scenarios.Scope) {
	in.Node(c.Node)
	in.OneOf("budget", c.Budget, in.BudgetChanges)
	in.Positive("within", c.Within)
}

// DecidedBy is how long it needs the recording.
func (c Resumed) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.Changed[c.Budget]+c.Within.D()).On(c.Node, t)
}

var checkResumed = by(Kind{
	ID: "resumed", Title: "drain of %s resumed",
	Requires: "A pod that a budget kept on the node begins to terminate within a time of the budget's change.",
	Fix:      "retry an eviction that a budget refused (429) every few seconds, for as long as the notice leaves",
	Look:     Look{Lane: LanePods, Text: "the lane Pods: did any eviction follow the change of the budget? Then the retries in handler.log"},
}, resumed)

func resumed(j judge, v Verdict, c Resumed) Verdict {
	v = v.requires(fmt.Sprintf("a pod that the budget kept terminating within %s of its change %q", c.Within.D(), c.Budget), c.Node)
	node, why := j.Node(c.Node)
	if why != "" {
		return v.unknown(why)
	}
	change, ok := j.First(func(e history.Event) bool { return e.Kind == history.BudgetSet && e.Step() == c.Budget })
	if !ok {
		return v.unknown(fmt.Sprintf("the budget was never changed by %q", c.Budget))
	}
	waiting, next := story.WaitingFor(j.Story, node, change)
	limit := min(change.At+c.Within.D(), j.Gone(node))
	v.Numbers = map[string]float64{"waiting": float64(waiting)}
	switch {
	case waiting == 0:
		return v.unknown("no pod was waiting for the budget", change)
	case next.Kind != "" && next.At <= limit:
		v.Numbers["resumed_seconds"] = (next.At - change.At).Seconds()
		return v.pass(fmt.Sprintf("%s began to terminate after %s", next.Pod, history.Seconds(next.At-change.At)), change, next)
	case j.Unseen(limit) != "":
		return v.unknown("not resumed: "+j.Unseen(limit), change)
	case next.Kind != "" && j.MayBeInTime(next, limit) != "":
		return v.unknown(fmt.Sprintf("%s began to terminate after %s: %s", next.Pod, history.Seconds(next.At-change.At), j.MayBeInTime(next, limit)), change, next)
	case next.Kind != "":
		return v.fail(fmt.Sprintf("%s began to terminate only after %s", next.Pod, history.Seconds(next.At-change.At)), change, next)
	}
	return v.fail("no pod began to terminate", change)
}
