package reports

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spotdrill/spotdrill/framework/verdict"
)

// Worst is the entry of a scenario that was played several times: the first of those with the worst
// outcome, with the outcomes of all. Plays must not be empty.
func Worst(plays []Entry) Entry {
	worst := plays[0]
	for _, e := range plays[1:] {
		if e.Outcome.Worse(worst.Outcome) {
			worst = e
		}
	}
	if len(plays) == 1 {
		return worst
	}
	worst.Repeats, worst.CheckRepeats = nil, map[string][]verdict.Outcome{}
	for n, e := range plays {
		worst.Repeats = append(worst.Repeats, e.Outcome)
		for _, c := range e.checks() {
			// A play without the check, such as one that broke, leaves it unknown.
			for len(worst.CheckRepeats[c.name]) < n {
				worst.CheckRepeats[c.name] = append(worst.CheckRepeats[c.name], verdict.Unknown)
			}
			worst.CheckRepeats[c.name] = append(worst.CheckRepeats[c.name], c.outcomes...)
		}
	}
	for name, outcomes := range worst.CheckRepeats {
		for len(outcomes) < len(plays) {
			outcomes = append(outcomes, verdict.Unknown)
		}
		worst.CheckRepeats[name] = outcomes
	}
	return worst
}

// checkPlays are the outcomes of one check in all plays of an entry.
type checkPlays struct {
	name     string
	outcomes []verdict.Outcome
}

// checks are the entry's checks in their order, and then those that only its other plays have. What is no
// check, such as why nothing was played, is not among them.
func (e Entry) checks() []checkPlays {
	if e.Outcome.Known() == verdict.Skipped {
		return nil
	}
	var all []checkPlays
	names := map[string]bool{}
	for i, v := range e.Verdicts {
		if v.ID == verdict.IDOfRun {
			continue
		}
		name := e.nameOf(i)
		names[name] = true
		all = append(all, checkPlays{name, e.outcomesOf(name, v.Outcome)})
	}
	for _, name := range slices.Sorted(maps.Keys(e.CheckRepeats)) {
		if !names[name] {
			all = append(all, checkPlays{name, e.CheckRepeats[name]})
		}
	}
	return all
}

// outcomesOf are the outcomes of a check in all plays. A report of an earlier version has those of the
// entry's own play only; in another play they are known if that passed.
func (e Entry) outcomesOf(check string, own verdict.Outcome) []verdict.Outcome {
	if len(e.Repeats) < 2 {
		return []verdict.Outcome{own.Known()}
	}
	if each := e.CheckRepeats[check]; len(each) > 0 {
		return each
	}
	each, seen := make([]verdict.Outcome, len(e.Repeats)), false
	for i, o := range e.Repeats {
		switch {
		case o == e.Outcome && !seen:
			each[i], seen = own.Known(), true
		case o == verdict.Pass:
			each[i] = verdict.Pass
		default:
			each[i] = verdict.Unknown
		}
	}
	return each
}

// nameOf is the name of the entry's i-th check, which no other one has.
func (e Entry) nameOf(i int) string {
	name, n := e.Verdicts[i].Check, 1
	for _, v := range e.Verdicts[:i] {
		if v.Check == name {
			n++
		}
	}
	if n > 1 {
		return fmt.Sprintf("%s (%d)", name, n)
	}
	return name
}

// named is the verdict of the check with the name; nil if there is none.
func (e Entry) named(name string) *verdict.Verdict {
	for i := range e.Verdicts {
		if e.nameOf(i) == name {
			return &e.Verdicts[i]
		}
	}
	return nil
}
