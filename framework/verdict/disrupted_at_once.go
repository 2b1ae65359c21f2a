package verdict

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// DisruptedAtOnce has the parameters of checkDisruptedAtOnce.
type DisruptedAtOnce struct {
	// Of is the step that configures the handler, because of which nodes are removed.
	Of string `yaml:"of"`
	// Max is how many may be removed at the same time.
	Max int `yaml:"max"`
}

// Validate checks the parameters.
func (c DisruptedAtOnce) Validate(in *scenarios.Scope) {
	in.OneOf("of", c.Of, in.Reconfigured)
	if c.Max < 1 {
		in.Problem("max", "%d is less than 1: none could be removed", c.Max)
	}
}

// DecidedBy is how long it needs the recording.
func (DisruptedAtOnce) DecidedBy(scenarios.Times) scenarios.Observation { return scenarios.AtEnd() }

var checkDisruptedAtOnce = by(Kind{
	ID: "disruptedAtOnce", Title: "nodes removed at once for %s",
	Requires: "The handler never removes more nodes at the same time without a notice than its budget allows; a node counts from its mark, or its first pod that has to leave, until its instance is terminated.",
	Fix:      "count the nodes that are marked or being deleted against the budget before another one is marked",
	Look:     Look{Lane: LaneNode, Text: "the lanes of the nodes: which was marked while another was still being removed? Then handler.log"},
}, disruptedAtOnce)

func disruptedAtOnce(j judge, v Verdict, c DisruptedAtOnce) Verdict {
	v = v.requires(fmt.Sprintf("at most %s being removed at the same time", history.Count(c.Max, "node")), c.Of)
	all := j.Removals(c.Of)
	most := story.AtOnce(all)
	v.Numbers = map[string]float64{"removed": float64(len(all)), "at_once": float64(len(most))}
	switch {
	case len(most) > c.Max:
		return v.fail(fmt.Sprintf("%s being removed at the same time", history.Count(len(most), "node")), capped(most)...)
	case j.Unseen(j.End) != "":
		return v.unknown("no more at once: " + j.Unseen(j.End))
	case len(all) <= c.Max:
		return v.unknown(fmt.Sprintf("only %s removed, so that no more were at the same time proves nothing", history.Count(len(all), "node")))
	}
	return v.pass(fmt.Sprintf("%s removed, never more than %d at the same time", history.Count(len(all), "node"), len(most)), capped(most)...)
}
