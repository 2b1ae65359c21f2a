// Package upgrade compares two versions of a program: it plays the same scenarios with both, plays those that do not
// come out the same as many times as a proof needs, and reports check by check what changed. What was played stays in
// a folder, so that a comparison can be interrupted.
package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/session"
	"github.com/spotdrill/spotdrill/kind"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Side is one of the two versions.
type Side string

// The sides. Each has a folder of this name, with its runs.
const (
	Before Side = "before"
	After  Side = "after"
)

// Options define what is compared.
type Options struct {
	// Program is what is upgraded, such as karpenter; From and To are its versions.
	Program, From, To string
	Set               scenarios.Set
	Scenarios         []scenarios.Scenario
	// Plays is the most plays of a scenario with each version. Each is played once with both; only those with a
	// check that did not come out the same are played more often.
	Plays int
	// Out is the folder in which the comparison has one of its own.
	Out string
	// Session returns the options of a session with a version of the program. What is played, and where its
	// results are, is added.
	Session func(version string) (session.Options, error)
	// InCluster returns the release of a part of the cluster that runs in all drills with a version; nil if Session
	// has the version.
	InCluster func(version string) kind.Release
	// Log gets the progress, in the form of fmt.Printf without a line break.
	Log func(format string, args ...any)
}

// Part is what is played next: some scenarios with one of the versions.
type Part struct {
	Side      Side
	Version   string
	Scenarios []scenarios.Scenario
	Repeat    int // how many times each
}

// Expected is about how long the part takes, without the set-up.
func (p Part) Expected(set scenarios.Set) (total time.Duration) {
	for _, s := range p.Scenarios {
		total += session.Expected(s, set) * time.Duration(p.Repeat)
	}
	return total
}

// String is the part in words.
func (p Part) String() string {
	text := fmt.Sprintf("%s, version %s: %s", p.Side, p.Version, history.Count(len(p.Scenarios), "scenario"))
	if p.Repeat > 1 {
		text += fmt.Sprintf(", %d times each", p.Repeat)
	}
	return text
}

// Folder has all of the comparison: the folders of both sides, and what reports.Changes.Write writes.
func (o Options) Folder() string {
	return filepath.Join(o.Out, strings.Join([]string{o.Program, o.From, o.To, string(o.Set)}, "-"))
}

// Run plays what is missing for the comparison, and writes it. The changes hold what is known, also if it ended early;
// an ended context is not an error of its own.
func Run(ctx context.Context, o Options) (reports.Changes, error) { return o.run(ctx, o.play) }

func (o Options) run(ctx context.Context, play func(context.Context, Part) error) (reports.Changes, error) {
	var broken error
	again := map[string]bool{} // what could not be judged, and was played again in this call
	for last := Before; ctx.Err() == nil && broken == nil; {
		var part Part
		if part, broken = o.next(ctx, last, again); broken != nil || len(part.Scenarios) == 0 {
			break
		}
		o.Log("%s, about %.0f s plus the set-up", part, part.Expected(o.Set).Seconds())
		last, broken = part.Side, play(ctx, part)
	}
	if ctx.Err() != nil {
		broken = nil
	}
	changes, err := o.compare(context.WithoutCancel(ctx))
	return changes, errors.Join(broken, err)
}

// Next is what is played next; no scenarios if the comparison is complete.
func (o Options) Next(ctx context.Context) (Part, error) {
	return o.next(ctx, Before, map[string]bool{})
}

// next prefers the side that was played last: its version is there. It notes in again what could not be judged and is
// now played again, which is done once.
func (o Options) next(ctx context.Context, last Side, again map[string]bool) (Part, error) {
	before, after, err := o.reports(ctx)
	if err != nil {
		return Part{}, err
	}
	of := map[Side][]*reports.Report{Before: before, After: after}
	sides := []Side{Before, After}
	if last == After {
		sides = []Side{After, Before}
	}
	for _, side := range sides {
		part := o.part(side, 1)
		for _, s := range o.Scenarios {
			all, decided := reports.Played(of[side], s.Name)
			key := string(side) + " " + s.Name
			if all > 0 && (decided > 0 || again[key]) {
				continue
			}
			again[key] = all > 0
			part.Scenarios = append(part.Scenarios, s)
		}
		if len(part.Scenarios) > 0 {
			return part, nil
		}
	}
	open := openIn(reports.Changed(before, after))
	for _, side := range sides {
		part := o.part(side, 0)
		for _, s := range o.Scenarios {
			all, _ := reports.Played(of[side], s.Name)
			missing := o.Plays - all
			if missing <= 0 || !slices.Contains(open, s.Name) || part.Repeat > 0 && missing != part.Repeat {
				continue
			}
			part.Repeat = missing
			part.Scenarios = append(part.Scenarios, s)
		}
		if len(part.Scenarios) > 0 {
			return part, nil
		}
	}
	return Part{}, nil
}

func (o Options) part(side Side, repeat int) Part {
	version := o.From
	if side == After {
		version = o.To
	}
	return Part{Side: side, Version: version, Repeat: repeat}
}

// openIn are the scenarios with a check whose change is not proven.
func openIn(c reports.Changes) (names []string) {
	for _, change := range c.Checks {
		if change.State == reports.NotProven {
			names = append(names, change.Scenario)
		}
	}
	return names
}

// play plays a part in a session of its own.
func (o Options) play(ctx context.Context, p Part) error {
	opts, err := o.Session(p.Version)
	if err != nil {
		return err
	}
	opts.Set, opts.Scenarios, opts.Repeat, opts.Out = o.Set, p.Scenarios, p.Repeat, filepath.Join(o.Folder(), string(p.Side))
	run, err := session.New(opts)
	if err != nil {
		return err
	}
	if err := run.SetUp(ctx); err != nil {
		return errors.Join(err, run.Finish(context.WithoutCancel(ctx)))
	}
	if err := o.ready(ctx, run, p.Version); err != nil {
		// Nothing was played: in a report, that would be drills that were skipped.
		return errors.Join(err, run.Restore(ctx), os.RemoveAll(run.Folder()))
	}
	broken := errors.Join(run.DrillAll(ctx), run.Finish(context.WithoutCancel(ctx)))
	if early := run.Report().EndedEarly; broken == nil && early != "" {
		broken = fmt.Errorf("the run with version %s ended before its last drill: %s", p.Version, early)
	}
	return broken
}

// ready makes the system run the version, or reports why it cannot.
func (o Options) ready(ctx context.Context, run *session.Session, version string) error {
	if why := run.Cannot(); why != "" {
		return fmt.Errorf("%s %s cannot be drilled here: %s", o.Program, version, why)
	}
	if o.InCluster == nil {
		return nil
	}
	if err := run.Running().UseRelease(ctx, o.InCluster(version)); err != nil {
		return fmt.Errorf("run %s %s in the cluster: %w", o.Program, version, err)
	}
	return run.Report().PlayIn(run.Running().Environment)
}

// compare compares what was played, and writes it. There is nothing to write before both sides have a run.
func (o Options) compare(ctx context.Context) (reports.Changes, error) {
	before, after, err := o.reports(ctx)
	if err != nil {
		return reports.Changes{}, err
	}
	c := reports.Changed(before, after)
	c.Before.Name, c.After.Name = o.Program+" "+o.From, o.Program+" "+o.To
	if len(before) == 0 || len(after) == 0 {
		return c, nil
	}
	if err := c.ReadEvents(ctx); err != nil {
		return c, err
	}
	return c, c.Write(o.Folder(), before, after)
}

// reports are the runs of both sides with the chosen scenarios only, in the order in which they were played.
func (o Options) reports(ctx context.Context) (before, after []*reports.Report, err error) {
	want, err := o.Session(o.From)
	if err != nil {
		return nil, nil, err
	}
	load := func(side Side) ([]*reports.Report, error) {
		dir := filepath.Join(o.Folder(), string(side))
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		loaded, err := reports.LoadAll(ctx, []string{dir})
		if err != nil {
			return nil, fmt.Errorf("read what was played before: %w; remove the folder to begin again", err)
		}
		for _, r := range loaded {
			if err := o.belongs(r, want); err != nil {
				return nil, fmt.Errorf("%s has run %s, %w; choose another folder with --out", dir, r.Run, err)
			}
			r.Results = slices.DeleteFunc(r.Results, func(e reports.Entry) bool {
				return !slices.ContainsFunc(o.Scenarios, func(s scenarios.Scenario) bool { return s.Name == e.Scenario })
			})
		}
		return reports.LatestPlays(loaded), nil
	}
	if before, err = load(Before); err == nil {
		after, err = load(After)
	}
	return before, after, err
}

// belongs reports why a run cannot be a part of this comparison, whose sessions are as want.
func (o Options) belongs(r *reports.Report, want session.Options) error {
	for _, part := range []struct{ what, has, want string }{
		{"set", string(r.Set), string(o.Set)},
		{"handler", r.Handler.Name, want.Handler.Name},
		{"kube-proxy mode", r.Environment["kube-proxy"], string(want.System.ProxyMode)},
		{"platform", r.Environment[history.PlatformKey], want.System.Platform.Name},
	} {
		// A run that ended in its set-up has no environment.
		if part.has != part.want && (len(r.Environment) > 0 || part.what == "set" || part.what == "handler") {
			return fmt.Errorf("which is of %s %q, not %q", part.what, part.has, part.want)
		}
	}
	return nil
}
