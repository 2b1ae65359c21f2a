// Package defects plants defects in the built-in handler: it turns the edits of
// mutants.yaml into overlay files for `go build -overlay`, and judges whether a
// drill caught the defect.
package defects

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Mutant is the built-in handler with one defect.
type Mutant struct {
	Name   string `yaml:"name"`
	Defect string `yaml:"defect"` // what it does wrong, a sentence
	// Handler is the description of the handler that has the defect; empty for builtin. It must be
	// one whose image is the product's own.
	Handler string `yaml:"handler,omitempty"`
	// CaughtBy is what must find the defect.
	CaughtBy Check  `yaml:"caughtBy"`
	Edits    []Edit `yaml:"edits,omitempty"`
	// Grants are its rights in the cluster that the original handler does not have.
	Grants []Grant `yaml:"grants,omitempty"`
}

// Grant is a rule of RBAC. No groups: the core group.
type Grant struct {
	Groups    []string `yaml:"groups,omitempty"`
	Resources []string `yaml:"resources"`
	Verbs     []string `yaml:"verbs"`
}

// Check identifies a check of a scenario.
type Check struct {
	Scenario string     `yaml:"scenario"`
	Check    verdict.ID `yaml:"check"`
	// Subject is what the check is about, if the scenario has several of its kind.
	Subject string `yaml:"subject,omitempty"`
	// With is the scenario in another lane whose nodes the defect is about.
	With string `yaml:"with,omitempty"`
}

// String is the check and its subject.
func (c Check) String() string { return strings.TrimSpace(string(c.Check) + " " + c.Subject) }

// Edit replaces the only occurrence of the old text in a file (relative to the module's
// root).
type Edit struct {
	File string `yaml:"file"`
	Old  string `yaml:"old"`
	New  string `yaml:"new"`
}

// Load reads the mutants of a file. A scenario that is not in the catalogue, and a name
// that two mutants have, are errors.
func Load(file string) ([]Mutant, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read mutants: %w", err)
	}
	var doc struct {
		Mutants []Mutant `yaml:"mutants"`
	}
	if err := strict.Decode(file, data, &doc); err != nil {
		return nil, fmt.Errorf("read mutants: %w", err)
	}
	catalogue, err := verdict.Scenarios().Catalogue()
	if err != nil {
		return nil, err
	}
	var errs []error
	for i, m := range doc.Mutants {
		by := slices.IndexFunc(catalogue, func(s scenarios.Scenario) bool { return s.Name == m.CaughtBy.Scenario })
		switch {
		case m.Name == "" || m.Defect == "" || m.CaughtBy.Check == "" || len(m.Edits)+len(m.Grants) == 0:
			errs = append(errs, fmt.Errorf("%s: mutant %d (%s) requires a name, a defect, a check that catches it, and edits or grants", file, i+1, m.Name))
		case slices.ContainsFunc(doc.Mutants[:i], func(o Mutant) bool { return o.Name == m.Name }):
			errs = append(errs, fmt.Errorf("%s: mutant %s is listed twice", file, m.Name))
		case by < 0:
			errs = append(errs, fmt.Errorf("%s: mutant %s: no scenario is named %q", file, m.Name, m.CaughtBy.Scenario))
		case m.CaughtBy.With != "" && !slices.ContainsFunc(catalogue, func(s scenarios.Scenario) bool { return s.Name == m.CaughtBy.With }):
			errs = append(errs, fmt.Errorf("%s: mutant %s: no scenario is named %q", file, m.Name, m.CaughtBy.With))
		default:
			errs = append(errs, m.checkKnown(file, catalogue[by]))
		}
	}
	return doc.Mutants, errors.Join(errs...)
}

// checkKnown is an error if the scenario has no such check.
func (m Mutant) checkKnown(file string, s scenarios.Scenario) error {
	// A check that only some handlers are judged by cannot be looked up without a drill.
	kind, ok := verdict.KindOf(m.CaughtBy.Check)
	inScenario := slices.ContainsFunc(verdict.Judge(s, history.History{}).Verdicts, m.CaughtBy.is)
	if !ok || kind.Judges == verdict.InScenarios && !inScenario {
		return fmt.Errorf("%s: mutant %s: %s has no check %q", file, m.Name, m.CaughtBy.Scenario, m.CaughtBy)
	}
	return nil
}

// is reports whether the verdict is one of this check.
func (c Check) is(v verdict.Verdict) bool {
	return v.ID == c.Check && (c.Subject == "" || v.Subject == c.Subject)
}

// Overlay writes the edited files of a mutant of the module at root into dir, and
// returns the path of the list that `go build -overlay` needs. An edit that does not
// apply is an error.
func (m Mutant) Overlay(root, dir string) (string, error) {
	texts, err := m.apply(root)
	if err != nil {
		return "", fmt.Errorf("mutant %s: %w", m.Name, err)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for file, text := range texts {
		edited := filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(edited, []byte(text), 0o644); err != nil {
			return "", fmt.Errorf("mutant %s: write overlay file: %w", m.Name, err)
		}
		overlay.Replace[filepath.Join(root, file)] = edited
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		return "", fmt.Errorf("mutant %s: list overlay files: %w", m.Name, err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, list, 0o644); err != nil {
		return "", fmt.Errorf("mutant %s: list overlay files: %w", m.Name, err)
	}
	return path, nil
}

// apply returns the edited files by their names.
func (m Mutant) apply(root string) (map[string]string, error) {
	texts := map[string]string{}
	for i, e := range m.Edits {
		text, ok := texts[e.File]
		if !ok {
			data, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				return nil, fmt.Errorf("edit %d: %w", i+1, err)
			}
			text = string(data)
		}
		// A YAML block ends with a newline, even if the line continues in the file.
		before, after := strings.TrimSuffix(e.Old, "\n"), strings.TrimSuffix(e.New, "\n")
		if n := strings.Count(text, before); before == "" || n != 1 {
			return nil, fmt.Errorf("edit %d: the old text is %d times in %s, not once: adapt the edit\n%s", i+1, n, e.File, before)
		}
		texts[e.File] = strings.Replace(text, before, after, 1)
	}
	return texts, nil
}

// Fate is what became of a mutant.
type Fate string

// The fates. With any but Caught the catalogue of scenarios has not proved itself.
const (
	Caught    Fate = "caught"
	Survived  Fate = "survived"
	NotJudged Fate = "not judged"
)

// Judge returns whether the mutant's check found the defect, and what it saw. A failure
// of another check is not enough: it may have had another reason. If the scenario has the
// check more than once, about several notices for one node, one failure is enough.
func (m Mutant) Judge(r verdict.Result) (Fate, string) {
	var fate Fate
	var saw string
	for _, v := range r.Verdicts {
		switch {
		case !m.CaughtBy.is(v):
		case v.Outcome == verdict.Fail:
			return Caught, v.Got
		case v.Outcome != verdict.Pass:
			fate, saw = NotJudged, v.Got
		case fate == "":
			fate, saw = Survived, v.Got+others(r)
		}
	}
	if fate == "" {
		return NotJudged, fmt.Sprintf("%s has no check %q", r.Scenario, m.CaughtBy)
	}
	return fate, saw
}

// others names the checks that failed.
func others(r verdict.Result) string {
	var failed []string
	for _, v := range r.Verdicts {
		if v.Outcome == verdict.Fail {
			failed = append(failed, v.Check)
		}
	}
	if len(failed) == 0 {
		return ""
	}
	return "; failed: " + strings.Join(failed, ", ")
}

// pastDeadline is how long a drill waits for a mutant after the notice's deadline: what
// a check limits has happened by then, or never will.
const pastDeadline = 5 * time.Second

// Impatient is the scenario of the fast set with the same checks, and waits that end soon
// after its deadline: a mutant may never do what is waited for.
func Impatient(s scenarios.Scenario) scenarios.Scenario {
	return s.AwaitingAtMost(s.Deadline.For(scenarios.Fast) + pastDeadline)
}
