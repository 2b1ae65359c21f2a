package reports

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

// ChangeState is how the outcomes of a check after a change compare with those before.
type ChangeState string

// The states. Only the first two are proven, see Significance and LeastPlays.
const (
	Worse     ChangeState = "worse"
	Better    ChangeState = "better"
	NotProven ChangeState = "not proven"
	Alike     ChangeState = "no difference seen"
	// Unjudged is a check without a play of each side to compare, or with unknown plays and no proven change.
	Unjudged ChangeState = "unknown"
)

// ChangeStates lists the states, the most important first.
func ChangeStates() []ChangeState { return []ChangeState{Worse, Unjudged, NotProven, Better, Alike} }

// Changes compares two groups of reports, such as those of two versions of a program, check by check.
type Changes struct {
	Before Side     `json:"before" yaml:"before"`
	After  Side     `json:"after" yaml:"after"`
	Checks []Change `json:"checks" yaml:"checks"`
}

// Side is one group of reports.
type Side struct {
	Name string   `json:"name" yaml:"name"` // the handlers and their versions
	Runs []string `json:"runs" yaml:"runs,flow"`
}

// Change is one check of a scenario on both sides.
type Change struct {
	Scenario string      `json:"scenario" yaml:"scenario"`
	Check    string      `json:"check" yaml:"check"`
	State    ChangeState `json:"state" yaml:"state"`
	Before   Plays       `json:"before" yaml:"before,flow"`
	After    Plays       `json:"after" yaml:"after,flow"`
	// P is the p-value of Fisher's exact test, two-sided.
	P float64 `json:"p" yaml:"p"`
	// Needed is the number of plays of each side that would prove the change if the shares stay the same;
	// 0 if it is proven, if there is none, or if that is not known.
	Needed int `json:"playsNeeded,omitempty" yaml:"playsNeeded,omitempty"`
	// Why is why the sides cannot be compared; empty if they can.
	Why string `json:"why,omitempty" yaml:"why,omitempty"`
	// FirstBefore and FirstAfter are the first play of each side that shows it; nil if it is Alike.
	FirstBefore *Record `json:"firstBefore,omitempty" yaml:"firstBefore,omitempty"`
	FirstAfter  *Record `json:"firstAfter,omitempty" yaml:"firstAfter,omitempty"`
}

// Record is what one play shows of a check.
type Record struct {
	Run     string          `json:"run" yaml:"run"`
	History string          `json:"history,omitempty" yaml:"history,omitempty"` // the folder of the attempt
	Outcome verdict.Outcome `json:"outcome" yaml:"outcome"`
	Got     string          `json:"got" yaml:"got"`
	// Events are those that show it, one in each line; see Changes.ReadEvents.
	Events []string `json:"events,omitempty" yaml:"events,omitempty"`
}

// Plays counts the outcomes of a check. Unknown and skipped plays are never passes.
type Plays struct {
	Passed  int `json:"passed" yaml:"passed"`
	Failed  int `json:"failed" yaml:"failed"`
	Unknown int `json:"unknown,omitempty" yaml:"unknown,omitempty"`
	Skipped int `json:"skipped,omitempty" yaml:"skipped,omitempty"`
}

func (p *Plays) add(o verdict.Outcome) {
	switch o.Known() {
	case verdict.Pass:
		p.Passed++
	case verdict.Fail:
		p.Failed++
	case verdict.Skipped:
		p.Skipped++
	default:
		p.Unknown++
	}
}

// String is the counts in words: "3 of 4, 1 unknown".
func (p Plays) String() string {
	text := fmt.Sprintf("%d of %d", p.Passed, p.judged())
	if p.Unknown > 0 {
		text += fmt.Sprintf(", %d unknown", p.Unknown)
	}
	if p.Skipped > 0 {
		text += fmt.Sprintf(", %d skipped", p.Skipped)
	}
	return text
}

// Changed compares the plays of the reports before a change with those after it. Repeats are plays, too.
// Plays of a scenario whose text differs are not compared. What could not be judged because its run ended
// early is no play. A run that is given twice on one side counts once.
func Changed(before, after []*Report) Changes {
	before, after = Without(before, nil), Without(after, nil)
	was, is := pool(before), pool(after)
	c := Changes{Before: sideOf(before), After: sideOf(after)}
	for _, name := range was.names(is) {
		c.Checks = append(c.Checks, changesOf(name, was[name], is[name])...)
	}
	return c
}

// Without are the reports of the runs that others do not have, each once.
func Without(of, others []*Report) []*Report {
	var runs []*Report
	for _, r := range of {
		same := func(o *Report) bool {
			return r.Run == o.Run && r.Started.Equal(o.Started) && r.Shard == o.Shard && r.Handler == o.Handler
		}
		if !slices.ContainsFunc(runs, same) && !slices.ContainsFunc(others, same) {
			runs = append(runs, r)
		}
	}
	return runs
}

func sideOf(of []*Report) Side {
	var s Side
	var names []string
	for _, r := range of {
		if name := r.Handler.Name + " " + r.Handler.Version; !slices.Contains(names, name) {
			names = append(names, name)
		}
		s.Runs = append(s.Runs, r.Run)
	}
	s.Name = strings.Join(names, ", ")
	return s
}

// pooled are the plays of each scenario, in the order in which they were played.
type pooled map[string]*scenarioPlays

// scenarioPlays are the plays of one scenario on one side.
type scenarioPlays struct {
	place   int // in the order of the scenarios
	digests []string
	checks  []string // in their order
	plays   map[string]*Plays
	entries []playedEntry
	broken  []playedEntry // plays that the harness could not end: what they have of a check shows nothing
}

// playedEntry is an entry with the report that has it.
type playedEntry struct {
	Entry
	of *Report
}

func pool(of []*Report) pooled {
	all := pooled{}
	for _, r := range of {
		for _, e := range r.Results {
			if r.cutShort(e) {
				continue
			}
			s := all[e.Scenario]
			if s == nil {
				s = &scenarioPlays{place: len(all), plays: map[string]*Plays{}}
				all[e.Scenario] = s
			}
			if e.broke() != nil {
				s.broken = append(s.broken, playedEntry{e, r})
				continue
			}
			s.add(playedEntry{e, r})
		}
	}
	return all
}

func (s *scenarioPlays) add(e playedEntry) {
	if !slices.Contains(s.digests, e.Digest) && e.Outcome != verdict.Skipped {
		s.digests = append(s.digests, e.Digest)
	}
	s.entries = append(s.entries, e)
	for _, c := range e.checks() {
		if s.plays[c.name] == nil {
			s.checks = append(s.checks, c.name)
			s.plays[c.name] = &Plays{}
		}
		for _, o := range c.outcomes {
			s.plays[c.name].add(o)
		}
	}
}

// names are the scenarios of both sides, in the order of the first that has them.
func (p pooled) names(other pooled) []string {
	var names []string
	for _, side := range []pooled{p, other} {
		own := make([]string, 0, len(side))
		for name := range side {
			if !slices.Contains(names, name) {
				own = append(own, name)
			}
		}
		slices.SortFunc(own, func(a, b string) int { return side[a].place - side[b].place })
		names = append(names, own...)
	}
	return names
}

// changesOf are the changes of one scenario's checks; a side that has none of its plays is nil. There are
// none if it was skipped on both sides.
func changesOf(scenario string, before, after *scenarioPlays) []Change {
	if before.skipped() && after.skipped() {
		return nil
	}
	why := incomparable(before, after)
	checks := before.checksAnd(after)
	if why == "" && len(checks) == 0 {
		why = "no play could be judged"
	}
	all := brokenPlays(scenario, before, after)
	if why != "" {
		return append(all, Change{Scenario: scenario, State: Unjudged, P: 1, Why: why})
	}
	for _, check := range checks {
		c := Change{Scenario: scenario, Check: check, Before: before.of(check), After: after.of(check)}
		c.judge()
		c.FirstBefore, c.FirstAfter = before.first(check, c.outcome(0)), after.first(check, c.outcome(1))
		all = append(all, c)
	}
	return all
}

// brokenPlays is a change of no check, if a play of either side broke: all of its checks are unknown for that one reason.
func brokenPlays(scenario string, before, after *scenarioPlays) []Change {
	was, ofBefore := before.firstBroken()
	is, ofAfter := after.firstBroken()
	if ofBefore+ofAfter == 0 {
		return nil
	}
	return []Change{{
		Scenario: scenario, State: Unjudged, P: 1, FirstBefore: was, FirstAfter: is,
		Why: fmt.Sprintf("plays that broke: %d before, %d after; no check counts them", ofBefore, ofAfter),
	}}
}

// incomparable is why the plays of a scenario cannot be compared, or "".
func incomparable(before, after *scenarioPlays) string {
	switch {
	case before == nil:
		return "it was not played before"
	case after == nil:
		return "it was not played after"
	case len(before.entries) == 0, len(after.entries) == 0:
		return "no play of one side could be judged"
	case before.skipped():
		return "it was skipped before: " + before.entries[0].First().Got
	case after.skipped():
		return "it was skipped after: " + after.entries[0].First().Got
	case len(before.digests) > 1 || len(after.digests) > 1 || !slices.Equal(before.digests, after.digests):
		return "the text of the scenario is not the same in all plays"
	}
	return ""
}

// skipped reports whether there are plays, and all of them were skipped.
func (s *scenarioPlays) skipped() bool {
	return s != nil && len(s.entries) > 0 && !slices.ContainsFunc(s.entries, func(e playedEntry) bool { return e.Outcome.Known() != verdict.Skipped })
}

// checksAnd are the checks of both, in their order; either may be nil.
func (s *scenarioPlays) checksAnd(other *scenarioPlays) []string {
	var all []string
	for _, side := range []*scenarioPlays{s, other} {
		if side == nil {
			continue
		}
		for _, check := range side.checks {
			if !slices.Contains(all, check) {
				all = append(all, check)
			}
		}
	}
	return all
}

// of are the plays of a check. A play that does not have it, such as one that ended before it was judged,
// leaves it unknown.
func (s *scenarioPlays) of(check string) Plays {
	var p Plays
	if has := s.plays[check]; has != nil {
		p = *has
	}
	all := 0
	for _, e := range s.entries {
		if e.Outcome.Known() == verdict.Skipped {
			p.Skipped++
		}
		all += len(e.outcomes())
	}
	p.Unknown += all - p.judged() - p.Unknown - p.Skipped
	return p
}

// first is the record of the first play whose check has the outcome; nil if none has.
func (s *scenarioPlays) first(check string, o verdict.Outcome) *Record {
	for _, e := range s.entries {
		v := e.named(check)
		if v == nil || v.Outcome.Known() != o {
			continue
		}
		return e.record(v)
	}
	return nil
}

// firstBroken is the record of the first play that broke, and how many did.
func (s *scenarioPlays) firstBroken() (*Record, int) {
	if s == nil || len(s.broken) == 0 {
		return nil, 0
	}
	return s.broken[0].record(s.broken[0].broke()), len(s.broken)
}

// record is what the play shows by a verdict.
func (e playedEntry) record(v *verdict.Verdict) *Record {
	r := &Record{Run: e.of.Run, Outcome: v.Outcome.Known(), Got: v.Got}
	if e.History != "" {
		r.History = filepath.ToSlash(filepath.Join(e.of.folder.Path, filepath.FromSlash(e.History)))
	}
	return r
}

// judge sets the state of a change, and what it rests on.
func (c *Change) judge() {
	if min(c.Before.judged(), c.After.judged()) == 0 {
		c.State, c.P, c.Why = Unjudged, 1, "no play of one side could be judged"
		return
	}
	c.P = fisher(c.Before, c.After)
	// The shares before and after, both with the same denominator.
	was, is := c.Before.Passed*c.After.judged(), c.After.Passed*c.Before.judged()
	switch {
	case proven(c.Before, c.After) && is < was:
		c.State = Worse
	case proven(c.Before, c.After):
		c.State = Better
	case is != was:
		c.State, c.Needed = NotProven, playsNeeded(c.Before, c.After)
	case c.unknownMatters():
		c.State, c.Why = Unjudged, "some plays could not be judged"
	default:
		c.State = Alike
	}
}

// unknownMatters reports whether the plays that could not be judged may hide a change for the worse: unless enough others of both
// sides could, and these would also prove none if each unknown play had passed before, and failed after.
func (c Change) unknownMatters() bool {
	before, after := c.Before, c.After
	if before.Unknown+after.Unknown == 0 {
		return false
	}
	before.Passed += before.Unknown
	after.Failed += after.Unknown
	return min(c.Before.judged(), c.After.judged()) < LeastPlays || proven(before, after)
}

// outcome is the outcome on a side (0 before, 1 after) that shows the change: a pass on the side with the larger
// share of passes, a fail on the other one; unknown if it is Unjudged.
func (c Change) outcome(side int) verdict.Outcome {
	was, is := c.Before.Passed*c.After.judged(), c.After.Passed*c.Before.judged()
	switch {
	case c.State == Unjudged:
		return verdict.Unknown
	case was == is:
		return ""
	case (was > is) == (side == 0):
		return verdict.Pass
	}
	return verdict.Fail
}

// Count is the number of checks in a state.
func (c Changes) Count(s ChangeState) int {
	n := 0
	for _, change := range c.Checks {
		if change.State == s {
			n++
		}
	}
	return n
}

// Open is the number of checks of which it is not known whether they changed for the worse.
func (c Changes) Open() int {
	n := 0
	for _, change := range c.Checks {
		if change.open() {
			n++
		}
	}
	return n
}

// open reports whether the check could not be compared, or may be worse without proof.
func (c Change) open() bool {
	return c.State == Unjudged || c.State == NotProven && c.outcome(0) == verdict.Pass
}

// Notable are the changes that are not Alike, the most important first.
func (c Changes) Notable() []Change {
	var all []Change
	for _, s := range ChangeStates() {
		for _, change := range c.Checks {
			if change.State == s && s != Alike {
				all = append(all, change)
			}
		}
	}
	return all
}

// String is the change in words, without its scenario: "drained victim: not proven: 1 of 1 before, 0 of 1
// after; plays needed: 4 of each".
func (c Change) String() string {
	text := string(c.State)
	if c.Check != "" {
		text = c.Check + ": " + text + ": passed " + c.Before.String() + " before, " + c.After.String() + " after"
	}
	switch {
	case c.Why != "":
		return text + "; " + c.Why
	case c.State == Worse || c.State == Better:
		return text + fmt.Sprintf(" (p = %.2g)", c.P)
	case c.State == NotProven && c.Needed > 0:
		return text + fmt.Sprintf("; plays needed: %d of each, if the shares stay the same", c.Needed)
	case c.State == NotProven:
		return text + fmt.Sprintf("; plays needed: more than %d of each", mostNeeded)
	}
	return text
}

// Headline is the counts of the states: "1 check worse, 40 no difference seen".
func (c Changes) Headline() string {
	var parts []string
	for _, s := range ChangeStates() {
		if n := c.Count(s); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if len(parts) == 0 {
		return "no check was played"
	}
	return history.Count(len(c.Checks), "check") + ": " + strings.Join(parts, ", ")
}

// WriteText writes what is not alike, by scenario, and the counts.
func (c Changes) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "before: %s; after: %s\n", printable(c.Before.Name), printable(c.After.Name))
	for _, change := range c.Notable() {
		fmt.Fprintf(&b, "%s: %s\n", printable(change.Scenario), printable(change.String()))
		for _, line := range change.Lines() {
			fmt.Fprintf(&b, "  %s\n", printable(line))
		}
	}
	fmt.Fprintf(&b, "%s\n", c.Headline())
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write changes: %w", err)
	}
	return nil
}
