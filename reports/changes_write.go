package reports

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v4"
)

// Names in the folder of a comparison, next to a JUnitFile.
const (
	ChangesFile     = "comparison.yaml"
	ChangesTextFile = "comparison.txt"
	ChangesPageFile = "comparison.html"
)

// ReadEvents adds the events behind the records of all changes, from the histories. What a published report does
// not have stays without.
func (c *Changes) ReadEvents(ctx context.Context) error {
	read := map[string]Entry{}
	for _, change := range c.Checks {
		for _, r := range []*Record{change.FirstBefore, change.FirstAfter} {
			if r == nil || r.History == "" {
				continue
			}
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("read the records of changes: %w", err)
			}
			e, ok := read[r.History]
			if !ok {
				s, h, err := loadAttempt(filepath.FromSlash(r.History))
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil {
					return fmt.Errorf("read the record of %s: %w", change.Scenario, err)
				}
				e = judged(s, h)
				read[r.History] = e
			}
			r.Events = e.events(change.Check)
		}
	}
	return nil
}

// events are the lines of the events that a check's verdict cites.
func (e Entry) events(check string) (lines []string) {
	v := e.named(check)
	if v == nil {
		return nil
	}
	for _, seq := range v.Evidence {
		if line := e.evidence[seq].line; line != "" {
			lines = append(lines, fmt.Sprintf("#%d %s", seq, line))
		}
	}
	return lines
}

// Lines are the records of the change, as text.
func (c Change) Lines() (lines []string) {
	for _, side := range []struct {
		name string
		r    *Record
	}{{"before", c.FirstBefore}, {"after", c.FirstAfter}} {
		if side.r == nil {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: %s: %s", side.name, side.r.Outcome, side.r.Got))
		for _, event := range side.r.Events {
			lines = append(lines, "  "+event)
		}
		if side.r.History != "" {
			lines = append(lines, "  all of it: spotdrill judge "+side.r.History)
		}
	}
	return lines
}

// Write writes the changes into a folder: as text, YAML, JUnit XML, and a page with a column for each report.
func (c Changes) Write(dir string, before, after []*Report) error {
	all := slices.Concat(before, after)
	m := Compare(all)
	m.Changes = &c
	return errors.Join(
		writeFile(filepath.Join(dir, ChangesTextFile), c.WriteText),
		writeFile(filepath.Join(dir, ChangesFile), c.writeYAML),
		writeFile(filepath.Join(dir, JUnitFile), c.writeJUnit),
		m.WritePage(filepath.Join(dir, ChangesPageFile), all),
	)
}

func (c Changes) writeYAML(w io.Writer) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(c); err != nil {
		return fmt.Errorf("write changes: %w", err)
	}
	return enc.Close()
}

// writeJUnit writes a suite for each scenario and a test case for each check. What is worse is a failure; what could
// not be compared, or may be worse, is an error, so that neither goes green.
func (c Changes) writeJUnit(w io.Writer) error {
	all := junitSuites{Name: "spotdrill"}
	for _, change := range c.Checks {
		if n := len(all.Suites); n == 0 || all.Suites[n-1].Name != attribute(change.Scenario) {
			all.Suites = append(all.Suites, junitSuite{Name: attribute(change.Scenario), Properties: []junitProperty{
				{"before", attribute(c.Before.Name)}, {"after", attribute(c.After.Name)},
			}})
		}
		suite := &all.Suites[len(all.Suites)-1]
		test := junitCase{Name: attribute(change.Check), Class: attribute(change.Scenario), Time: junitTime(0), Properties: []junitProperty{{"state", attribute(change.State)}}}
		if test.Name == "" {
			test.Name = "all checks"
		}
		for _, counts := range []*junitCounts{&all.junitCounts, &suite.junitCounts} {
			counts.Tests++
			counts.Time = junitTime(0)
			switch {
			case change.State == Worse:
				counts.Failures++
			case change.open():
				counts.Errors++
			}
		}
		result := &junitResult{Message: attribute(change.String()), Type: string(change.State)}
		for _, line := range change.Lines() {
			result.Text += printable(line) + "\n"
		}
		switch {
		case change.State == Worse:
			test.Failure = result
		case change.open():
			test.Error = result
		}
		suite.Cases = append(suite.Cases, test)
	}
	return all.write(w)
}
