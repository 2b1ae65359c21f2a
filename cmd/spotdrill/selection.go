package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
)

// errAllPassed is why there is nothing to play again.
var errAllPassed = errors.New("everything passed in the latest run: there is nothing to play again")

// selection chooses the scenarios that are played.
type selection struct {
	only, skip, profiles []string
	rerunFailed          bool
}

// choose returns the scenarios of a set, or the named ones, that match the selection.
// Out is the folder of runs.
func (sel selection) choose(loader scenarios.Loader, set scenarios.Set, names []string, out string) ([]scenarios.Scenario, error) {
	if err := sel.check(); err != nil {
		return nil, err
	}
	if sel.rerunFailed {
		if len(names) > 0 {
			return nil, fmt.Errorf("--rerun-failed chooses the scenarios, and %q does, too: use only one of them", names)
		}
		was, err := lastRun(out)
		if err != nil {
			return nil, err
		}
		if names = failedIn(was, filepath.Join(out, reports.Latest)); len(names) == 0 {
			return nil, errAllPassed
		}
	}
	chosen, err := loader.Select(set, names)
	if err != nil {
		return nil, err
	}
	builtIn := scenarios.Names()
	for _, pattern := range slices.Concat(sel.only, sel.skip) {
		matches := func(name string) bool { ok, _ := path.Match(pattern, name); return ok } // check has reported it
		if !slices.ContainsFunc(builtIn, matches) && !slices.ContainsFunc(chosen, func(s scenarios.Scenario) bool { return matches(s.Name) }) {
			return nil, fmt.Errorf("%q matches no scenario%s; spotdrill list --set full shows all", pattern, strict.DidYouMean(pattern, builtIn))
		}
	}
	return slices.DeleteFunc(chosen, func(s scenarios.Scenario) bool { return !sel.lets(s) }), nil
}

func (sel selection) check() error {
	for _, pattern := range slices.Concat(sel.only, sel.skip) {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("pattern %q: %w; * matches any text, ? one character, [ab] one of a and b", pattern, err)
		}
	}
	return nil
}

func (sel selection) lets(s scenarios.Scenario) bool {
	matches := func(pattern string) bool {
		ok, _ := path.Match(pattern, s.Name) // check has reported it
		return ok
	}
	return (len(sel.only) == 0 || slices.ContainsFunc(sel.only, matches)) &&
		!slices.ContainsFunc(sel.skip, matches) &&
		(len(sel.profiles) == 0 || slices.Contains(sel.profiles, s.Profile))
}

// lastRun is the report of the latest run.
func lastRun(out string) (*reports.Report, error) {
	r, err := reports.Load(filepath.Join(out, reports.Latest, reports.YAMLFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no earlier run in %s (%w); choose the folder of runs with --out", out, err)
	}
	return r, err
}

// failedIn names the scenarios of a run that neither passed nor were skipped.
func failedIn(r *reports.Report, run string) []string {
	return namesOf(slices.DeleteFunc(slices.Clone(r.Results), func(e reports.Entry) bool {
		return e.Outcome == verdict.Pass || e.Outcome == verdict.Skipped
	}), run)
}

// namesOf names the scenarios of a run's entries. A scenario of the user's own is named by the
// path of the copy that its drill saved.
func namesOf(entries []reports.Entry, run string) []string {
	var names []string
	for _, e := range entries {
		name := e.Scenario
		if !scenarios.InCatalogue(name) && e.History != "" {
			name = reports.ScenarioFile(filepath.Join(run, filepath.FromSlash(e.History)), name)
		}
		names = append(names, name)
	}
	return names
}
