package verdict

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// AddOnUpgraded has the parameters of checkAddOnUpgraded.
type AddOnUpgraded struct {
	// AddOn is the add-on of an upgrade.
	AddOn string `yaml:"addOn"`
	// Refused requires that it is refused because of conflicts.
	Refused bool `yaml:"refused,omitempty"`
}

// Validate checks the parameters.
func (c AddOnUpgraded) Validate(in *scenarios.Scope) {
	in.OneOf("addOn", c.AddOn, in.Upgraded)
}

// DecidedBy is how long it needs the recording.
func (AddOnUpgraded) DecidedBy(scenarios.Times) scenarios.Observation { return scenarios.AtEnd() }

var checkAddOnUpgraded = by(Kind{
	ID: "addOnUpgraded", Title: "add-on %s upgraded",
	Requires: "The upgrade of the add-on is done; with refused, it is refused because others own fields that it would change, and changes nothing.",
	Fix:      "spotdrill addon diff shows which fields others own; the history shows which conflicts there were",
	Look:     Look{Text: "addon.upgraded or addon.refused in the drill's history.jsonl"},
}, addOnUpgraded)

func addOnUpgraded(j judge, v Verdict, c AddOnUpgraded) Verdict {
	want, other := history.AddOnUpgraded, history.AddOnRefused
	v = v.requires("the upgrade is done", c.AddOn)
	if c.Refused {
		want, other = other, want
		v.Want = "the upgrade is refused because of conflicts, and changes nothing"
	}
	of := func(kind history.Kind) func(history.Event) bool {
		return func(e history.Event) bool { return e.Kind == kind && e.AddOn() == c.AddOn }
	}
	if e, ok := j.First(of(want)); ok {
		got := fmt.Sprintf("done with %s after %s", e.Action, history.Seconds(e.Numbers.Duration(history.Took)))
		if c.Refused {
			got = "refused: " + e.Note
		}
		return v.pass(got, e)
	}
	if e, ok := j.First(of(other)); ok {
		if c.Refused {
			return v.fail("it was done with "+e.Action, e)
		}
		return v.fail("it was refused: "+e.Note, e)
	}
	return v.unknown("no upgrade is on record")
}
