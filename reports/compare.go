package reports

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Matrix compares several reports: a column for each report, a row for each scenario
// that any of them has.
type Matrix struct {
	Reports   []Column `json:"reports"`
	Scenarios []Row    `json:"scenarios"` // by profile, else in the order of the reports
	// Changes compares two reports check by check; nil for another number of reports.
	Changes *Changes `json:"changes,omitempty"`
}

// Column is one of the reports.
type Column struct {
	Handler string `json:"handler"`
	Version string `json:"version"`
	Set     string `json:"set"`
	Run     string `json:"run"`
	Passed  int    `json:"passed"`
	Failed  int    `json:"failed"`
	Unknown int    `json:"unknown"`
	Skipped int    `json:"skipped"`
	// Differs names what in the environment differs from the first report: figures are
	// comparable only if the machines are.
	Differs []string `json:"differs,omitempty"`
}

// Row is one scenario, with a cell for each report in their order.
type Row struct {
	Profile  string `json:"profile"`
	Scenario string `json:"scenario"`
	Cells    []Cell `json:"cells"`
}

// Cell is the result of a scenario in one report.
type Cell struct {
	// Outcome is empty if the report does not have the scenario.
	Outcome verdict.Outcome `json:"outcome,omitempty"`
	// Figure is the scenario's headline figure, nil if it was not measured.
	Figure *Figure `json:"figure,omitempty"`
}

// Figure is a number that a check measured; its name ends in its unit.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Compare makes the matrix of reports.
func Compare(reports []*Report) Matrix {
	var m Matrix
	for i, r := range reports {
		c := Column{
			Handler: r.Handler.Name, Version: r.Handler.Version, Set: string(r.Set), Run: r.Run,
			Passed: r.Summary.Passed, Failed: r.Summary.Failed, Unknown: r.Summary.Unknown, Skipped: r.Summary.Skipped,
		}
		if i > 0 {
			c.Differs = differing(reports[0].Environment, r.Environment)
		}
		m.Reports = append(m.Reports, c)
		for _, e := range r.Results {
			m.row(e, len(reports)).Cells[i] = Cell{e.Outcome.Known(), headlineOf(e)}
		}
	}
	slices.SortStableFunc(m.Scenarios, func(a, b Row) int {
		return slices.Index(scenarios.Profiles(), a.Profile) - slices.Index(scenarios.Profiles(), b.Profile)
	})
	if len(reports) == 2 {
		changes := Changed(reports[:1], reports[1:])
		m.Changes = &changes
	}
	return m
}

// Differing are the scenarios without the same outcome in every report: those with
// different outcomes, those that a report lacks, and those with an Unknown, which is
// never equal to another outcome.
func (m Matrix) Differing() []string {
	var names []string
	for _, r := range m.Scenarios {
		first := r.Cells[0].Outcome
		alike := first != verdict.Unknown && !slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Outcome != first })
		if !alike {
			names = append(names, r.Scenario)
		}
	}
	return names
}

// row returns the entry's row, and adds it if there is none yet.
func (m *Matrix) row(e Entry, columns int) *Row {
	i := slices.IndexFunc(m.Scenarios, func(r Row) bool { return r.Scenario == e.Scenario })
	if i < 0 {
		i = len(m.Scenarios)
		m.Scenarios = append(m.Scenarios, Row{Profile: e.Profile, Scenario: e.Scenario, Cells: make([]Cell, columns)})
	}
	return &m.Scenarios[i]
}

// differing are the names whose values differ between two environments.
func differing(a, b map[string]string) []string {
	names := maps.Clone(a)
	if names == nil {
		names = map[string]string{}
	}
	maps.Copy(names, b)
	maps.DeleteFunc(names, func(name, _ string) bool { return a[name] == b[name] })
	return slices.Sorted(maps.Keys(names))
}

// headlineOf is the main figure of a scenario: for DNS the longest window of either
// port mode, else how long the drain took, or its nearest equivalent if nothing is
// drained. Of several nodes the slowest counts.
func headlineOf(e Entry) *Figure {
	names := []string{"drained_seconds", "event_seconds", "deleted_seconds", "marked_seconds"}
	switch e.Profile {
	case "DNS", "INCIDENT", "APPLICATION":
		return worst(e, "window_max_ms", "window_fresh_max_ms", "window_fixed_max_ms")
	}
	for _, name := range names {
		if found := worst(e, name, name); found != nil {
			return found
		}
	}
	return nil
}

// worst is the largest of the entry's numbers with these names; nil if there is none.
func worst(e Entry, figure string, names ...string) (found *Figure) {
	for _, v := range e.Verdicts {
		for _, name := range names {
			if value, ok := v.Numbers[name]; ok && (found == nil || value > found.Value) {
				found = &Figure{figure, value}
			}
		}
	}
	return found
}

// String is the figure as people read it: "drained 5.012 s".
func (f Figure) String() string {
	name, _ := strings.CutSuffix(f.Name, f.unit())
	return strings.ReplaceAll(name, "_", " ") + " " + f.with(f.Value)
}

// with is another value as people read it, in the figure's unit.
func (f Figure) with(value float64) string {
	switch f.unit() {
	case "_seconds":
		return strconv.FormatFloat(value, 'f', 3, 64) + " s"
	case "_ms":
		return strconv.FormatFloat(value, 'f', 3, 64) + " ms"
	}
	return strconv.FormatFloat(value, 'g', -1, 64)
}

// unit is how the figure's name ends; empty for a count.
func (f Figure) unit() string {
	for _, unit := range []string{"_seconds", "_ms"} {
		if strings.HasSuffix(f.Name, unit) {
			return unit
		}
	}
	return ""
}

func (c Cell) String() string {
	switch {
	case c.Outcome == "":
		return "-"
	case c.Figure == nil:
		return string(c.Outcome)
	}
	return string(c.Outcome) + ", " + c.Figure.String()
}

// letter names a column; a 27th is called AA.
func letter(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return letter(i/26-1) + letter(i%26)
}

// WriteText writes the matrix as a table, and under it what its columns are.
func (m Matrix) WriteText(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := []string{"PROFILE", "SCENARIO"}
	for i := range m.Reports {
		head = append(head, letter(i))
	}
	fmt.Fprintln(table, strings.Join(head, "\t"))
	for _, r := range m.Scenarios {
		line := []string{printable(r.Profile), printable(r.Scenario)}
		for _, c := range r.Cells {
			line = append(line, printable(c.String()))
		}
		fmt.Fprintln(table, strings.Join(line, "\t"))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	fmt.Fprintln(w)
	for i, c := range m.Reports {
		line := fmt.Sprintf("%s: %s %s, set %s, run %s: %d passed, %d failed, %d unknown, %d skipped",
			letter(i), c.Handler, c.Version, c.Set, c.Run, c.Passed, c.Failed, c.Unknown, c.Skipped)
		if len(c.Differs) > 0 {
			line += "; not as in A: " + strings.Join(c.Differs, ", ")
		}
		if _, err := fmt.Fprintln(w, printable(line)); err != nil {
			return fmt.Errorf("write comparison: %w", err)
		}
	}
	if m.Changes == nil {
		return nil
	}
	fmt.Fprintln(w, "\nFrom A to B, check by check:")
	return m.Changes.WriteText(w)
}
