package verdict

import (
	"fmt"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// LeadGained has the parameters of checkLeadGained.
type LeadGained struct {
	Node string `yaml:"node"`
	// Notice is the step that the handler under test drains for.
	Notice string `yaml:"notice"`
	// AtLeast is the time from the second handler's first act to that step.
	AtLeast strict.Duration `yaml:"atLeast"`
}

// Validate checks the parameters.
func (c LeadGained) Validate(in *scenarios.Scope) {
	in.NoticeForTwo(c.Node, c.Notice)
	in.Positive("atLeast", c.AtLeast)
}

// DecidedBy is how long it needs the recording.
func (LeadGained) DecidedBy(scenarios.Times) scenarios.Observation { return scenarios.AtEnd() }

var checkLeadGained = by(Kind{
	ID: "leadGained", Title: "lead of the second handler on %s",
	Requires: "The second handler changes the node, or asks a pod of it to leave, some time before the notice that the handler under test drains for.",
	Fix:      "let the second handler drain for what comes before that notice, such as a rebalance recommendation; or remove it: it gains nothing then",
	Look:     Look{Lane: LaneHandler, Text: "the lanes Handler and Node: which notice came first, and what did the second handler do with it? Then second-handler.log"},
}, leadGained)

func leadGained(j judge, v Verdict, c LeadGained) Verdict {
	v = v.requires(fmt.Sprintf("the second handler acts at least %s before notice %q", c.AtLeast.D(), c.Notice), c.Node)
	node, put, why := story.NoticedByTwo(j.Story, c.Node, c.Notice)
	if why != "" {
		return v.unknown(why, known(put)...)
	}
	acts := story.ActsOn(j.Story, node)[history.OtherHandler]
	if len(acts) == 0 {
		return v.fail(fmt.Sprintf("%s did nothing with %s", story.NameOf(j.Story, history.OtherHandler), node), put)
	}
	lead := put.At - *acts[0].Said
	v.Numbers = map[string]float64{"lead_seconds": lead.Seconds()}
	if lead < c.AtLeast.D() {
		return v.fail(fmt.Sprintf("%s acted %s", story.NameOf(j.Story, history.OtherHandler), beforeOrAfter(lead)), put, acts[0])
	}
	return v.pass(fmt.Sprintf("%s acted %s", story.NameOf(j.Story, history.OtherHandler), beforeOrAfter(lead)), put, acts[0])
}

// beforeOrAfter is a lead in words.
func beforeOrAfter(lead time.Duration) string {
	if lead < 0 {
		return history.Seconds(-lead) + " after the notice"
	}
	return history.Seconds(lead) + " before the notice"
}
