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

// LatestPlays are the reports without the entries that could not be judged and that a later one of the reports has, too:
// what was played again is what counts, as in a run that is resumed. The reports are in the order in which they
// were played; the given ones do not change.
func LatestPlays(of []*Report) []*Report {
	latest := make([]*Report, len(of))
	for i, r := range of {
		kept := *r
		kept.Results = slices.DeleteFunc(slices.Clone(r.Results), func(e Entry) bool {
			return e.Outcome.Known() == verdict.Unknown &&
				slices.ContainsFunc(of[i+1:], func(later *Report) bool { return later.plays(e.Scenario) > 0 })
		})
		latest[i] = &kept
	}
	return latest
}

// Played is how many times the reports have a scenario, and how many of these plays are decided: judged, or skipped.
// What could not be judged because its run ended early is no play.
func Played(of []*Report, scenario string) (all, decided int) {
	for _, r := range of {
		all += r.plays(scenario)
		for _, e := range r.Results {
			if e.Scenario != scenario {
				continue
			}
			for _, o := range e.outcomes() {
				if o.Known() != verdict.Unknown {
					decided++
				}
			}
		}
	}
	return all, decided
}

// plays is how many times the report has the scenario.
func (r *Report) plays(scenario string) (n int) {
	for _, e := range r.Results {
		if e.Scenario == scenario && !r.cutShort(e) {
			n += len(e.outcomes())
		}
	}
	return n
}

// cutShort reports whether an entry of the report is unknown because the run ended early.
func (r *Report) cutShort(e Entry) bool {
	return r.EndedEarly != "" && e.Outcome.Known() == verdict.Unknown
}

// broke is the verdict by which the harness could not end the entry's only play; nil if it could.
func (e Entry) broke() *verdict.Verdict {
	i := slices.IndexFunc(e.Verdicts, func(v verdict.Verdict) bool {
		return v.ID == verdict.IDOfHarness && v.Outcome.Known() == verdict.Unknown
	})
	if i < 0 || len(e.Repeats) > 1 {
		return nil
	}
	return &e.Verdicts[i]
}

// outcomes are those of all plays of the entry.
func (e Entry) outcomes() []verdict.Outcome {
	if len(e.Repeats) > 1 {
		return e.Repeats
	}
	return []verdict.Outcome{e.Outcome}
}
