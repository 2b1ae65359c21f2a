package verdict

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/spotdrill/spotdrill/scenarios"
)

// Scenarios loads scenarios with all checks that there are.
func Scenarios() scenarios.Loader {
	var kinds []scenarios.CheckKind
	for _, c := range catalogue() {
		if c.judge != nil {
			kinds = append(kinds, scenarios.CheckKind{ID: string(c.ID), Decode: c.judge.decode})
		}
	}
	return scenarios.Loader{Kinds: kinds}
}

// Require is the check of a scenario with these parameters.
func Require(parameters scenarios.Requirement) scenarios.Check {
	for _, c := range catalogue() {
		if c.judge != nil && reflect.TypeOf(c.judge.zero) == reflect.TypeOf(parameters) {
			return scenarios.Check{Kind: string(c.ID), Requirement: parameters}
		}
	}
	return scenarios.Check{}
}

// Kinds lists every kind of check: those of scenarios, and those that every drill is
// judged by.
func Kinds() []Kind {
	var kinds []Kind
	for _, c := range catalogue() {
		kinds = append(kinds, c.described())
	}
	return kinds
}

// KindOf returns the kind of check that has a verdict with that ID.
func KindOf(id ID) (Kind, bool) {
	c, ok := find(id)
	return c.described(), ok
}

func (c check) described() Kind {
	c.Judges = Elsewhere
	switch {
	case c.judge != nil:
		c.Judges, c.Parameters = InScenarios, reflect.TypeOf(c.judge.zero)
	case c.always != nil:
		c.Judges = InEveryDrill
	}
	return c.Kind
}

func find(id ID) (check, bool) {
	for _, c := range catalogue() {
		if c.ID == id || slices.Contains(c.Verdicts, id) {
			return c, true
		}
	}
	return check{}, false
}

// Kind is the kind of check to look at: that of the premise if the verdict has one.
// It is the zero value if this version does not have it.
func (v Verdict) Kind() Kind {
	kind, _ := KindOf(cmp.Or(v.Premise, v.ID))
	return kind
}

// FixOf is what to do about a verdict with that ID.
func (k Kind) FixOf(id ID) string { return cmp.Or(k.Fixes[id], k.Fix) }

// Fix is what to change about what did not pass, in a sentence without an end; "" if it passed or was
// skipped. If the check could not be evaluated, it is what prevents that.
func (v Verdict) Fix() string {
	kind := v.Kind()
	fix := kind.FixOf(v.ID)
	switch {
	case v.Outcome == Pass, v.Outcome == Skipped, fix == "":
		return ""
	case v.Outcome == Fail, kind.ofRecord:
		return fix
	case v.Noise:
		return checkControl.Fix
	}
	return "it could not be evaluated, for the reason that is given: play the drill again; if it fails then, " + fix
}

// New returns a verdict of a check that has no outcome yet.
func New(id ID, want string) Verdict {
	c, ok := find(id)
	if !ok {
		c = unknownCheck
	}
	return c.verdict().requires(want)
}
