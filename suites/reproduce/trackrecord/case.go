// Package trackrecord holds the track record: bugs of released software, each with the
// versions that have it and do not have it, and the check that shows the difference. It
// judges whether a bug was reproduced, keeps when that was last so, and writes the table
// of docs/track-record.md.
package trackrecord

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/kind"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Case is a bug of released software, and how it is reproduced.
type Case struct {
	// Issue is the bug's name, PROJECT#NUMBER or a few words if nobody filed it.
	Issue string `yaml:"issue"`
	// URL is the thread or the code that shows it.
	URL string `yaml:"url"`
	// Bug is what goes wrong, in a sentence.
	Bug string `yaml:"bug"`
	// Program is what has the bug.
	Program kind.Program `yaml:"program"`
	// Introduced is the first release that has it, as far as known.
	Introduced string `yaml:"introduced"`
	// FixedIn is the first release without it; empty if there is none.
	FixedIn string `yaml:"fixedIn,omitempty"`
	// NotFixed describes, for a bug without a release that fixes it, how far the fix is.
	NotFixed string `yaml:"notFixed,omitempty"`
	// Broken and Fixed are the versions that are played; Fixed is empty if there is none.
	Broken string `yaml:"broken"`
	Fixed  string `yaml:"fixed,omitempty"`
	// Scenario is a name of the catalogue, or the path of a file in the folder above.
	Scenario string `yaml:"scenario"`
	// Red is the check that must fail in the broken version.
	Red Check `yaml:"red"`
	// Consequences are checks that may fail or be unknown with it. No other may.
	Consequences []Check `yaml:"consequences,omitempty"`
	// Plays is how many times the fixed version must pass in a row, and within how many
	// plays the broken one must fail once: more than 1 for a bug that shows sometimes.
	Plays int `yaml:"plays"`
	// Settings are environment variables of the handler.
	Settings map[string]string `yaml:"settings,omitempty"`
	// Taint is, where set, the only mark that the handler is judged by: for a bug that
	// loses the taint and keeps the cordon.
	Taint string `yaml:"taint,omitempty"`

	// File is where the case was read from, and Drill its scenario.
	File  string             `yaml:"-"`
	Drill scenarios.Scenario `yaml:"-"`
	text  []byte
}

// Check identifies a check of a scenario; without a subject, any of its kind.
type Check struct {
	Check   verdict.ID `yaml:"check"`
	Subject string     `yaml:"subject,omitempty"`
}

// String is the check and its subject.
func (c Check) String() string { return strings.TrimSpace(string(c.Check) + " " + c.Subject) }

func (c Check) is(v verdict.Verdict) bool {
	return v.ID == c.Check && (c.Subject == "" || v.Subject == c.Subject)
}

// Load reads every case of the folder suite/cases, in the order of the files' names.
// source is the root of the checkout, whose releases the cases name. Errors read
// "FILE:LINE: what is wrong".
func Load(source, suite string) ([]Case, error) {
	files, err := filepath.Glob(filepath.Join(suite, "cases", "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(fmt.Errorf("%s has no cases", suite), err)
	}
	var all []Case
	var errs []error
	for _, file := range files {
		c, err := read(source, suite, file)
		if err == nil && slices.ContainsFunc(all, func(o Case) bool { return o.Issue == c.Issue }) {
			err = fmt.Errorf("%s: another case is named %q", c.at("issue"), c.Issue)
		}
		all, errs = append(all, c), append(errs, err)
	}
	return all, errors.Join(errs...)
}

func read(source, suite, file string) (Case, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Case{}, fmt.Errorf("read case: %w", err)
	}
	c := Case{File: file, text: data}
	if err := strict.Decode(file, data, &c); err != nil {
		return Case{}, err
	}
	if err := c.validate(source); err != nil {
		return c, err
	}
	if c.Drill, err = scenarioOf(suite, c.Scenario); err != nil {
		return c, fmt.Errorf("%s: %w", c.at("scenario"), err)
	}
	return c, c.checkKnown()
}

func scenarioOf(suite, name string) (scenarios.Scenario, error) {
	if strings.HasSuffix(name, ".yaml") {
		name = filepath.Join(suite, name)
	}
	found, err := verdict.Scenarios().Select(scenarios.Full, []string{name})
	if err != nil {
		return scenarios.Scenario{}, err
	}
	return found[0], nil
}

func (c Case) at(field string) string {
	return fmt.Sprintf("%s:%d: %s", c.File, strict.Line(c.text, field), field)
}

// validate reports all errors of the fields at once.
func (c Case) validate(source string) error {
	var errs []error
	wrong := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", c.at(field), fmt.Sprintf(format, args...)))
	}
	for field, value := range map[string]string{"issue": c.Issue, "url": c.URL, "bug": c.Bug, "introduced": c.Introduced, "broken": c.Broken, "red.check": string(c.Red.Check)} {
		if strings.TrimSpace(value) == "" {
			wrong(field, "must not be empty")
		}
	}
	if !slices.Contains(kind.Programs(), c.Program) {
		wrong("program", "%q is not known; allowed: %s", c.Program, strings.Join(history.Words(kind.Programs()), ", "))
		return errors.Join(errs...)
	}
	if (c.Fixed == "") != (c.FixedIn == "") || (c.Fixed == "") != (c.NotFixed != "") {
		wrong("fixed", "needs fixedIn and fixed, or notFixed, which describes how far a fix is")
	}
	if c.Fixed == c.Broken {
		wrong("fixed", "is the broken version")
	}
	if c.Plays < 1 {
		wrong("plays", "%d is less than 1", c.Plays)
	}
	if !c.ofHandler() && (len(c.Settings) > 0 || c.Taint != "") {
		wrong("program", "%s is no handler, and has neither settings nor a taint", c.Program)
	}
	for field, version := range map[string]string{"broken": c.Broken, "fixed": c.Fixed} {
		if version == "" {
			continue
		}
		under, err := c.Handler(version)
		if err != nil {
			return err
		}
		folder := filepath.Join("kind", "images", "releases", kind.Release{Program: c.Program, Version: version}.String())
		if _, err := os.Stat(filepath.Join(source, folder)); err != nil && (under.Release != nil || !c.ofHandler()) {
			wrong(field, "%s is not there, which describes what %s %s is built from", folder, c.Program, version)
		}
	}
	return errors.Join(errs...)
}

// checkKnown is an error if the scenario has not all the checks that the case names.
func (c Case) checkKnown() error {
	judged := verdict.Judge(c.Drill, history.History{}).Verdicts
	for _, check := range append([]Check{c.Red}, c.Consequences...) {
		kind, ok := verdict.KindOf(check.Check)
		if !ok || kind.Judges == verdict.InScenarios && !slices.ContainsFunc(judged, check.is) {
			return fmt.Errorf("%s: scenario %s has no check %q", c.at("red"), c.Drill.Name, check)
		}
	}
	return nil
}

func (c Case) ofHandler() bool { return c.Program == kind.NTH || c.Program == kind.Karpenter }

// Handler is the handler to play a version of the program with: the program itself, or
// the built-in one next to a part of the cluster.
func (c Case) Handler(version string) (handler.Description, error) {
	name := "builtin"
	if c.ofHandler() {
		name = string(c.Program)
	}
	under, err := handler.Load(name)
	if err != nil {
		return under, err
	}
	under.Always = c.Settings
	if c.Taint != "" {
		under.Marks.Unschedulable, under.Marks.Taint = false, c.Taint
	}
	// The description's own version needs no other image, if it can be had at all.
	if c.ofHandler() && (under.Version != version || under.Image.Recipe == "") {
		return under.AtRelease(kind.Release{Program: c.Program, Version: version})
	}
	return under, nil
}

// Release is what the cluster must run to play a version; false if the program is a
// handler.
func (c Case) Release(version string) (kind.Release, bool) {
	return kind.Release{Program: c.Program, Version: version}, !c.ofHandler()
}

// Named picks a case by its issue, whatever its case.
func Named(all []Case, issue string) (Case, error) {
	var known []string
	for _, c := range all {
		if strings.EqualFold(c.Issue, issue) {
			return c, nil
		}
		known = append(known, c.Issue)
	}
	return Case{}, fmt.Errorf("no case is named %q; known: %s", issue, strings.Join(known, ", "))
}

// Tonight picks n cases by the day, so that each has its turn.
func Tonight(all []Case, day, n int) []Case {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b Case) int { return cmp.Compare(a.Issue, b.Issue) })
	var picked []Case
	for i := range min(n, len(sorted)) {
		picked = append(picked, sorted[(day*n+i)%len(sorted)])
	}
	return picked
}
