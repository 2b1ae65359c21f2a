package reports

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

// comparePage is what the template compare.html shows: a column for each report, or a row of marks for the nights.
type comparePage struct {
	frame
	Title, Headline string
	Runs            []compareRun
	Choices         []choice
	ProfileNames    []string
	Rows            []compareRow
	Nights          int // the most marks in a row; 0 for a comparison of reports
	Changes         *Changes
}

type compareRun struct {
	Column
	Letter, Href string
}

// Headline is the run's counts in words.
func (c compareRun) Headline() string {
	return headline(Counts{Passed: c.Passed, Failed: c.Failed, Unknown: c.Unknown, Skipped: c.Skipped, Total: c.Passed + c.Failed + c.Unknown + c.Skipped})
}

type compareRow struct {
	Profile, Scenario string
	State             string // one of Choices
	Cells             []compareCell
	Drift             *DriftFigure // nil without a comparable figure
}

// compareCell is a scenario in one report.
type compareCell struct {
	Run     string
	Outcome verdict.Outcome // empty if the report does not have the scenario
	Figure  string
	Finding string // what was seen, if it is no pass
	Other   bool   // the scenario's text is another one than in the newest report
	Href    string // empty if there is no page
}

// findingMax is how many letters of a finding the text of a mark has: a page has thousands of marks.
const findingMax = 120

// Text is a cell in words.
func (c compareCell) Text() string {
	text := c.Run + ": "
	if c.Outcome == "" {
		return text + "not played"
	}
	text += word(c.Outcome)
	for _, more := range []string{c.Figure, fit(c.Finding, findingMax)} {
		if more != "" {
			text += ", " + more
		}
	}
	if c.Other {
		text += " (another text of the scenario)"
	}
	return text
}

// The states of rows.
const (
	changed   = "changed"
	unchanged = "the same"
)

// WritePage writes the matrix of these reports as a page. Its links to their own pages are relative to it.
func (m Matrix) WritePage(file string, of []*Report) error {
	return writeFile(file, func(w io.Writer) error { return m.writeHTML(w, of, filepath.Dir(file)) })
}

func (m Matrix) writeHTML(w io.Writer, of []*Report, folder string) error {
	p := comparePage{Title: "Comparison", Changes: m.Changes}
	for i, c := range m.Reports {
		p.Runs = append(p.Runs, compareRun{c, letter(i), pageOf(of[i], folder, "")})
	}
	differing := m.Differing()
	for _, r := range m.Scenarios {
		row := compareRow{Profile: r.Profile, Scenario: r.Scenario, State: unchanged}
		if slices.Contains(differing, r.Scenario) {
			row.State = changed
		}
		for i := range r.Cells {
			row.Cells = append(row.Cells, newCompareCell(of[i], r.Scenario, "", folder))
		}
		p.Rows = append(p.Rows, row)
	}
	p.Headline = fmt.Sprintf("%d of %s do not have the same outcome in every report", len(differing), history.Count(len(m.Scenarios), "scenario"))
	return p.write(w, changed, unchanged)
}

// nightsShown is the most earlier nights in a row of marks.
const nightsShown = 30

// WritePage writes a report's last nights as a page: for each scenario a row of marks, the newest last. Only earlier
// reports of the same handler and set count. Its links to their own pages are relative to it.
func (d Drift) WritePage(file string, now *Report, earlier []*Report) error {
	return writeFile(file, func(w io.Writer) error { return d.writeHTML(w, now, earlier, filepath.Dir(file)) })
}

func (d Drift) writeHTML(w io.Writer, now *Report, earlier []*Report, folder string) error {
	nights := slices.DeleteFunc(slices.Clone(earlier), func(r *Report) bool {
		return r.Run == now.Run || r.Set != now.Set || r.Handler.Name != now.Handler.Name
	})
	slices.SortStableFunc(nights, func(a, b *Report) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Run, b.Run)) })
	nights = append(nights[max(0, len(nights)-nightsShown):], now)
	p := comparePage{Title: "Nights", Nights: len(nights)}
	m := Compare([]*Report{now})
	p.Runs = append(p.Runs, compareRun{m.Reports[0], "now", pageOf(now, folder, "")})
	different := 0
	for _, r := range m.Scenarios {
		row := compareRow{Profile: r.Profile, Scenario: r.Scenario, State: unchanged}
		i := slices.IndexFunc(now.Results, func(e Entry) bool { return e.Scenario == r.Scenario })
		for _, night := range nights {
			row.Cells = append(row.Cells, newCompareCell(night, r.Scenario, now.Results[i].Digest, folder))
		}
		if i := slices.IndexFunc(d.Figures, func(f DriftFigure) bool { return f.Scenario == r.Scenario }); i >= 0 {
			row.Drift = &d.Figures[i]
		}
		if row.varies() {
			row.State = changed
			different++
		}
		p.Rows = append(p.Rows, row)
	}
	p.Headline = fmt.Sprintf("%d of %s did not have the same outcome in all of %s; %s drifted", different, history.Count(len(m.Scenarios), "scenario"), history.Count(len(nights), "night"), history.Count(d.Count(Drifted), "figure"))
	return p.write(w, changed, unchanged)
}

// varies reports whether the outcomes of the nights that have the scenario differ, or one is unknown.
func (r compareRow) varies() bool {
	last := r.Cells[len(r.Cells)-1].Outcome
	return slices.ContainsFunc(r.Cells, func(c compareCell) bool {
		return c.Outcome == verdict.Unknown || c.Outcome != "" && c.Outcome != last
	})
}

// Earlier are the figures of the earlier nights in words.
func (f DriftFigure) Earlier() string {
	if f.State == TooFew {
		return history.Count(f.Nights, "night")
	}
	return fmt.Sprintf("p95 %s, p99 %s of %s", f.Figure.with(f.Warn), f.Figure.with(f.Fail), history.Count(f.Nights, "night"))
}

// Last is the newest cell.
func (r compareRow) Last() compareCell { return r.Cells[len(r.Cells)-1] }

func (p comparePage) write(w io.Writer, states ...string) error {
	for _, state := range states {
		n := 0
		for _, r := range p.Rows {
			if r.State == state {
				n++
			}
			if !slices.Contains(p.ProfileNames, r.Profile) {
				p.ProfileNames = append(p.ProfileNames, r.Profile)
			}
		}
		if n > 0 {
			p.Choices = append(p.Choices, choice{Value: state, Text: fmt.Sprintf("%d %s", n, state)})
		}
	}
	var err error
	if p.frame, err = newFrame(); err != nil {
		return err
	}
	return writePage(w, "compare.html", p)
}

func newCompareCell(r *Report, scenario, digest, folder string) compareCell {
	c := compareCell{Run: "run " + r.Run}
	i := slices.IndexFunc(r.Results, func(e Entry) bool { return e.Scenario == scenario })
	if i < 0 {
		return c
	}
	e := r.Results[i]
	c.Outcome, c.Other, c.Href = e.Outcome.Known(), digest != "" && e.Digest != digest, pageOf(r, folder, anchor(e))
	if f := headlineOf(e); f != nil {
		c.Figure = f.String()
	}
	if c.Outcome != verdict.Pass {
		c.Finding = reason(e)
	}
	return c
}

// pageOf is the address of a drill on the page of a report, relative to a folder; empty if there is no such page.
func pageOf(r *Report, folder, id string) string {
	if r.folder.Path == "" {
		return ""
	}
	if _, err := os.Stat(filepath.Join(r.folder.Path, HTMLFile)); err != nil {
		return ""
	}
	from, err := filepath.Abs(folder)
	if err != nil {
		return ""
	}
	to, err := filepath.Abs(r.folder.Path)
	if err != nil {
		return ""
	}
	relative, err := filepath.Rel(from, to)
	if err != nil {
		return ""
	}
	return (&url.URL{Path: path.Join(filepath.ToSlash(relative), HTMLFile), Fragment: id}).String()
}
