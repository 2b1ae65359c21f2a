package reports

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/feature"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// handlersPage has the table of all published reports.
const handlersPage = "../docs/handlers.md"

const (
	handlersBegin = "<!-- from reports/published: go test ./reports -run Handlers -update -->\n"
	handlersEnd   = "<!-- end of the table -->"
)

// publishedReports are the largest ones of each handler, in the order of their names.
func publishedReports(t *testing.T) []*Report {
	t.Helper()
	folders, err := filepath.Glob("published/*")
	if err != nil {
		t.Fatal(err)
	}
	var out []*Report
	for _, folder := range folders {
		file := filepath.Join(folder, "full", YAMLFile)
		if _, err := os.Stat(file); err != nil {
			file = filepath.Join(folder, YAMLFile)
		}
		r, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// rowOf is the row of the table that a scenario belongs to: its profile if it is for every handler,
// else the feature that it requires; empty if it requires none.
func rowOf(s scenarios.Scenario) string {
	if s.Core() {
		return s.Profile
	}
	if s.Setting != "" {
		return s.Profile
	}
	return s.Feature
}

// cell is the result that a report has for the scenarios of a row.
func cell(r *Report, row string, rows map[string]string) string {
	passed, played := 0, 0
	for _, e := range r.Results {
		if rows[e.Scenario] != row || e.Outcome == verdict.Skipped {
			continue
		}
		played++
		if e.Outcome == verdict.Pass {
			passed++
		}
	}
	switch {
	case played == 0:
		return "–"
	case passed == played:
		return fmt.Sprintf("%d kept", played)
	}
	return fmt.Sprintf("**%d of %d**", passed, played)
}

func handlersTable(t *testing.T) string {
	t.Helper()
	all, err := verdict.Scenarios().Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, s := range all {
		rows[s.Name] = cmp.Or(rowOf(s), "(none)")
	}
	published := publishedReports(t)
	var b strings.Builder
	b.WriteString("\n|  |")
	for _, r := range published {
		page := "../reports/" + filepath.ToSlash(r.folder.Path) + "/README.md"
		fmt.Fprintf(&b, " [%s](%s) |", strings.TrimSpace(r.Handler.Name+" "+versionOf(r)), page)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(published)) + "\n| set, date |")
	for _, r := range published {
		fmt.Fprintf(&b, " %s, %s |", r.Set, r.Started.Format("2006-01-02"))
	}
	b.WriteString("\n")
	for _, row := range slices.Concat(scenarios.CoreProfiles(), feature.Names(), []string{"FLAGS"}) {
		line, shown := "| "+kindOf(row)+" `"+row+"` |", false
		for _, r := range published {
			of := cell(r, row, rows)
			shown = shown || of != "–"
			line += " " + of + " |"
		}
		if shown {
			b.WriteString(line + "\n")
		}
	}
	return b.String() + "\n"
}

// kindOf is what a row stands for: profiles have capitals, features do not.
func kindOf(row string) string {
	if strings.ToUpper(row) == row {
		return "profile"
	}
	return "feature"
}

// versionOf is the handler's version; the built-in handler's is that of the product, an image.
func versionOf(r *Report) string {
	if strings.HasPrefix(r.Handler.Version, "v") {
		return r.Handler.Version
	}
	return ""
}

// Every line of the table comes from a published report.
func TestTheTableOfHandlersIsFresh(t *testing.T) {
	data, err := os.ReadFile(handlersPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), handlersBegin)
	old, after, closed := strings.Cut(rest, handlersEnd)
	if !ok || !closed {
		t.Fatalf("%s has no table between its marks", handlersPage)
	}
	table := handlersTable(t)
	if *update {
		if err := os.WriteFile(handlersPage, []byte(before+handlersBegin+table+handlersEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != table {
		t.Errorf("%s is out of date: go test ./reports -run Handlers -update", handlersPage)
	}
}

func TestACellOfTheTable(t *testing.T) {
	entry := func(name string, o verdict.Outcome) Entry {
		return Entry{Result: verdict.Result{Scenario: name, Outcome: o}}
	}
	rows := map[string]string{"a": "spot", "b": "spot", "c": "drift"}
	for want, results := range map[string][]Entry{
		"–":          {entry("c", verdict.Pass), entry("a", verdict.Skipped)},
		"2 kept":     {entry("a", verdict.Pass), entry("b", verdict.Pass), entry("c", verdict.Fail)},
		"1 kept":     {entry("a", verdict.Pass), entry("b", verdict.Skipped)},
		"**1 of 2**": {entry("a", verdict.Pass), entry("b", verdict.Unknown)},
		"**0 of 1**": {entry("a", verdict.Fail)},
	} {
		if got := cell(&Report{Results: results}, "spot", rows); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
