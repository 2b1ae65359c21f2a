// Package explore looks for what a handler does wrong that nobody has thought of. It plays a scenario undisturbed, and learns from
// the record which calls the handler makes. Then it plays the scenario again and again, each time with something that goes wrong at
// one of these calls, and judges by the scenario's own checks, which have as much more time as that takes. Each variation is a
// scenario like any other: what fails can be played again by its file.
package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/session"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
)

const (
	// learning is how many undisturbed plays there are: a call that one of them lacks is no point.
	learning = 3
	// Times is how many times what fails is played in all, to find out whether it fails each time.
	Times = 3
)

// Options define an exploration.
type Options struct {
	// Session is the handler, and where it is installed; its lanes are those of the plays.
	Session  session.Options
	Loader   scenarios.Loader
	Scenario scenarios.Scenario
	// Budget is how long variations are begun; those that have begun are played to their end.
	Budget time.Duration
	// Seed is what the order of the single perturbations, and the pairs, are drawn from.
	Seed uint64
	// Only are the points and kinds of perturbations to play, by parts of their names; none for all.
	Only []string
	// Earlier has the plays of an earlier exploration, which are not repeated; nil for none.
	Earlier *Result
	// Log gets the progress, in the form of fmt.Printf without a line break.
	Log func(format string, args ...any)
}

// exploration is one in progress.
type exploration struct {
	Options
	base
	run    *session.Session
	result Result
	random *rand.Rand
	began  time.Time
	// failures are the first that failed of the plays of a scenario, for the report.
	failures map[string]failure
}

// failure is a play that failed.
type failure struct {
	scenarios.Scenario
	entry reports.Entry
}

// Run explores. The result holds what is known, also after an error, and is written to the run's folder; an ended context is not an error of its own.
func Run(ctx context.Context, o Options) (Result, error) {
	b, err := baseOf(o.Scenario, o.Loader)
	if err != nil {
		return Result{}, err
	}
	o.Session.Set, o.Session.System.Kwok = scenarios.Fast, true
	meta := o.Session.Handler.Meta()
	x := &exploration{Options: o, base: b, random: rand.New(rand.NewPCG(o.Seed, 0)), failures: map[string]failure{}}
	x.result = Result{Handler: meta.Name + " " + meta.Version, Scenario: o.Scenario.Name, Again: "spotdrill run --handler " + o.Session.Handler.Reference(), Digest: o.Scenario.Digest(), NotJudged: b.dropped}
	if e := o.Earlier; e != nil {
		if e.Handler != x.result.Handler || e.Scenario != x.result.Scenario || e.Digest != x.result.Digest {
			return x.result, fmt.Errorf("what was explored there is %s with %s, or another text of that scenario: begin a new one", e.Scenario, e.Handler)
		}
		x.result.Plays, x.result.Followed, x.result.Seconds = e.Plays, e.Followed, e.Seconds
		x.forgetUnplayed() // of one that was killed
	}
	if x.run, err = session.New(o.Session); err != nil {
		return x.result, err
	}
	broken := x.run.SetUp(ctx)
	if broken == nil && ctx.Err() == nil {
		broken = x.explore(ctx)
	}
	if ctx.Err() != nil {
		broken = nil
	}
	if x.result.Folder = x.run.Folder(); x.result.Folder != "" {
		x.report()
		broken = errors.Join(broken, x.result.Write(x.run.Folder()), x.result.WritePage(x.run.Folder()))
	}
	return x.result, errors.Join(broken, x.run.Finish(context.WithoutCancel(ctx)))
}

// report adds the simplest play of each finding of this run to the session's report.
func (x *exploration) report() {
	for _, f := range x.result.Findings() {
		if first, ok := x.failures[f.Plays[0].Scenario]; ok {
			x.run.Include(first.Scenario, first.entry)
		}
	}
}

// explore learns, and plays the single perturbations, and then those that pass together.
func (x *exploration) explore(ctx context.Context) error {
	points, watched, err := x.learn(ctx)
	if err != nil {
		return err
	}
	var singles [][]Perturbation
	for _, p := range points {
		x.result.Points = append(x.result.Points, p.String())
		for _, one := range perturbations(p, x.notice, watched) {
			if x.wanted(one) {
				singles = append(singles, []Perturbation{one})
			}
		}
	}
	x.result.Map = slices.Concat(singles...)
	x.Log("%s, %s; up to %d at a time", history.Count(len(points), "point"), history.Count(len(singles), "variation"), x.run.AtOnce())
	x.began = time.Now()
	x.random.Shuffle(len(singles), func(i, j int) { singles[i], singles[j] = singles[j], singles[i] })
	if err := x.playAll(ctx, singles); err != nil {
		return err
	}
	for x.more() && ctx.Err() == nil {
		together := x.combine(singles, 4*x.run.AtOnce())
		if len(together) == 0 {
			return nil
		}
		if err := x.playAll(ctx, together); err != nil {
			return err
		}
	}
	return nil
}

func (x *exploration) more() bool { return time.Since(x.began) < x.Budget }

func (x *exploration) wanted(p Perturbation) bool {
	return len(x.Only) == 0 || slices.ContainsFunc(x.Only, func(part string) bool { return strings.Contains(p.String(), part) || strings.Contains(p.slug(), part) })
}

// learn plays undisturbed and finds the points.
func (x *exploration) learn(ctx context.Context) (points []Point, watched []string, err error) {
	var all []scenarios.Scenario
	for n := range learning {
		s, err := x.clean(n + 1)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, s)
	}
	var entries []reports.Entry
	if err := x.run.PlayBatch(ctx, session.Batch{Scenarios: all, Attempt: 1, Done: func(e reports.Entry) { entries = append(entries, e) }}); err != nil {
		return nil, nil, err
	}
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if err := x.leaveOut(entries); err != nil {
		return nil, nil, err
	}
	var plays []*story.Story
	for _, e := range entries {
		s := all[slices.IndexFunc(all, func(s scenarios.Scenario) bool { return s.Name == e.Scenario })]
		if len(plays) == 0 {
			x.run.Include(s, e)
		}
		h, err := history.Load(x.folder(e))
		if err != nil {
			return nil, nil, err
		}
		plays = append(plays, story.Read(s, h))
	}
	for _, st := range plays {
		x.follow(st)
	}
	return pointsOf(plays), watchedIn(plays), nil
}

// leaveOut removes the scenario's checks that fail in each undisturbed play: the handler is known to break these, and nothing can be
// seen by them. Every other check must pass.
func (x *exploration) leaveOut(undisturbed []reports.Entry) error {
	if len(undisturbed) < learning {
		return fmt.Errorf("only %d of %d undisturbed plays have ended", len(undisturbed), learning)
	}
	fails := map[int]int{} // by the check's place
	for _, e := range undisturbed {
		for i, v := range e.Verdicts {
			if v.Outcome.Known() == verdict.Pass {
				continue
			}
			if i >= len(x.Checks) || v.Outcome.Known() != verdict.Fail {
				return fmt.Errorf("undisturbed, %s is %s: %s: %s; there is nothing to compare a disturbed play with", x.Name, v.Outcome, v.Check, v.Got)
			}
			fails[i]++
		}
	}
	var kept []scenarios.Check
	for i, check := range x.Checks {
		switch fails[i] {
		case 0:
			kept = append(kept, check)
		case learning:
			x.result.NotJudged = append(x.result.NotJudged, check.Kind+" (fails undisturbed)")
		default:
			return fmt.Errorf("undisturbed, %s fails %d of %d times by %s; there is nothing to compare a disturbed play with", x.Name, fails[i], learning, check.Kind)
		}
	}
	if len(kept) == 0 {
		return fmt.Errorf("undisturbed, %s fails by each of its checks", x.Name)
	}
	x.Checks = kept
	return nil
}

// folder is that of a play's history.
func (x *exploration) folder(e reports.Entry) string { return filepath.Join(x.run.Folder(), e.History) }

// playAll plays variations that were not played yet, and those that fail as many times as Times.
func (x *exploration) playAll(ctx context.Context, all [][]Perturbation) error {
	variations := map[string]scenarios.Scenario{}
	var first []scenarios.Scenario
	for _, perturbations := range all {
		s, err := x.vary(perturbations)
		if err != nil {
			return fmt.Errorf("vary %s: %w", x.Name, err)
		}
		variations[s.Name] = s
		if p := x.result.find(s.Name); p == nil {
			x.result.Plays = append(x.result.Plays, &Play{Scenario: s.Name, Perturbations: perturbations})
			first = append(first, s)
		}
	}
	defer x.forgetUnplayed()
	if err := x.playBatch(ctx, variations, first, 1); err != nil {
		return err
	}
	for n := 2; n <= Times; n++ {
		var again []scenarios.Scenario
		for _, p := range x.result.Plays {
			s, ok := variations[p.Scenario]
			if failed := slices.ContainsFunc(p.Outcomes, func(o verdict.Outcome) bool { return o.Known() == verdict.Fail }); ok && failed && len(p.Outcomes) == n-1 {
				again = append(again, s)
			}
		}
		if err := x.playBatch(ctx, variations, again, n); err != nil {
			return err
		}
	}
	return nil
}

// forgetUnplayed removes what the budget did not reach.
func (x *exploration) forgetUnplayed() {
	x.result.Plays = slices.DeleteFunc(x.result.Plays, func(p *Play) bool { return len(p.Outcomes) == 0 })
}

func (x *exploration) playBatch(ctx context.Context, variations map[string]scenarios.Scenario, batch []scenarios.Scenario, attempt int) error {
	start := time.Now()
	var broken error
	more := x.more
	if attempt > 1 { // what has failed is worth it
		more = nil
	}
	err := x.run.PlayBatch(ctx, session.Batch{Scenarios: batch, Attempt: attempt, More: more, Done: func(e reports.Entry) {
		if ctx.Err() != nil {
			return
		}
		broken = errors.Join(broken, x.add(variations[e.Scenario], e))
	}})
	x.result.Seconds += time.Since(start).Seconds()
	return errors.Join(err, broken, x.result.Write(x.run.Folder()))
}

// add adds the outcome of a play.
func (x *exploration) add(s scenarios.Scenario, e reports.Entry) error {
	p := x.result.find(e.Scenario)
	if unreached(e) {
		e.Outcome = verdict.Skipped
	}
	p.Outcomes = append(p.Outcomes, e.Outcome)
	h, err := history.Load(x.folder(e))
	if err != nil {
		return err
	}
	st := story.Read(s, h)
	if n := x.follow(st); len(p.Outcomes) == 1 {
		p.New = n
	}
	if e.Outcome.Known() == verdict.Pass || len(p.Failed) > 0 {
		return nil
	}
	p.History, p.Got = x.folder(e), e.First().Check+": "+e.First().Got
	if e.Outcome.Known() != verdict.Fail {
		return nil
	}
	x.failures[e.Scenario] = failure{s, e}
	for _, v := range e.Verdicts {
		if v.Outcome.Known() == verdict.Fail && !slices.Contains(p.Failed, v.ID) {
			p.Failed = append(p.Failed, v.ID)
		}
	}
	slices.Sort(p.Failed)
	p.Effect = effectOf(p.Failed, st)
	return nil
}

// follow notes which kinds of calls came one after the other in a play, and returns how many of these are new.
func (x *exploration) follow(st *story.Story) (n int) {
	for _, step := range followedIn(st) {
		if !slices.Contains(x.result.Followed, step) {
			x.result.Followed = append(x.result.Followed, step)
			n++
		}
	}
	return n
}

// unreached reports whether a play is only unknown because a disturbance hit no call: with two of them, the handler may not come to
// the second call.
func unreached(e reports.Entry) bool {
	return e.Outcome.Known() == verdict.Unknown && !slices.ContainsFunc(e.Verdicts, func(v verdict.Verdict) bool {
		return v.Outcome.Known() != verdict.Pass && v.ID != "faultsInjected"
	})
}

const (
	// mostWeight is how much more often a perturbation is drawn that led to calls in a new order than one that did not: such a state
	// of the handler is where no play has been.
	mostWeight = 4
	// triples is of how many combinations one has three perturbations and not two.
	triples = 4
)

// combine draws so many combinations of two or three single perturbations that pass by themselves, at different calls, which were
// not played yet.
func (x *exploration) combine(singles [][]Perturbation, most int) (out [][]Perturbation) {
	var drawn []Perturbation
	for _, one := range singles {
		s, err := x.vary(one)
		if err != nil {
			continue
		}
		if p := x.result.find(s.Name); p != nil && p.Outcome() == verdict.Pass {
			drawn = append(drawn, slices.Repeat(one, 1+min(p.New, mostWeight-1))...)
		}
	}
	names := map[string]bool{}
	for tries := 0; len(drawn) > 1 && len(out) < most && tries < 20*most; tries++ {
		size := 2
		if x.random.IntN(triples) == 0 {
			size = 3
		}
		var together []Perturbation
		for range size {
			together = append(together, drawn[x.random.IntN(len(drawn))])
		}
		if !combinable(together) {
			continue
		}
		// What is to be done at a call must not wait for a later one.
		slices.SortFunc(together, func(a, b Perturbation) int {
			return cmp.Compare(slices.Index(x.result.Points, a.Point), slices.Index(x.result.Points, b.Point))
		})
		s, err := x.vary(together)
		if err != nil || names[s.Name] || x.result.find(s.Name) != nil {
			continue
		}
		names[s.Name] = true
		out = append(out, together)
	}
	return out
}

// combinable reports whether perturbations are at different calls, and at most one of them is followed by something else.
func combinable(all []Perturbation) bool {
	points, then := map[string]bool{}, 0
	for _, p := range all {
		points[p.Point] = true
		if len(p.then) > 0 {
			then++
		}
	}
	return len(points) == len(all) && then <= 1
}
