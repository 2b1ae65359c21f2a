package reports

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/verdict"
)

// WriteMarkdown writes the report for the summary of a CI job: the counts, the first drill that did not
// pass, with its findings and how to play it again, and a table of all drills.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## spotdrill: %s\n\n", r.Summary)
	facts := r.facts()
	for i, f := range facts {
		fmt.Fprintf(&b, "%s %s", f.Name, inTable(f.Value))
		if i < len(facts)-1 {
			b.WriteString(" · ")
		}
	}
	b.WriteString("\n\n| Profile | passed | failed | unknown | skipped |\n|---|---|---|---|---|\n")
	for _, p := range r.Profiles {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", p.Profile, p.Passed, p.Failed, p.Unknown, p.Skipped)
	}
	if bad := r.notPassed(); len(bad) > 0 {
		r.writeFirst(&b, bad[0])
	}
	b.WriteString("\n<details><summary>All drills</summary>\n\n| Drill | Outcome | Seconds | Finding |\n|---|---|---|---|\n")
	for _, e := range r.Results {
		found := ""
		if e.Outcome.Known() != verdict.Pass {
			found = reason(e, e.Outcome.Known())
		}
		fmt.Fprintf(&b, "| `%s` | %s | %.0f | %s |\n", e.Scenario, e.Outcome.Known(), time.Duration(e.Measured).Seconds(), inTable(found))
	}
	b.WriteString("\n</details>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// writeFirst describes the first drill that did not pass.
func (r *Report) writeFirst(b *strings.Builder, e Entry) {
	fmt.Fprintf(b, "\n### First to look at: `%s`, %s\n\n%s\n\n| Check | Outcome | Required | Seen |\n|---|---|---|---|\n", e.Scenario, e.Outcome.Known(), inTable(e.Title))
	for _, v := range e.Verdicts {
		if v.Outcome.Known() != verdict.Pass {
			fmt.Fprintf(b, "| %s | %s | %s | %s |\n", inTable(v.Check), v.Outcome.Known(), inTable(v.Want), inTable(v.Got))
		}
	}
	fmt.Fprintf(b, "\nPlay it again: `%s`\n", r.Reproduce(e))
}

// inTable is a text that cannot end a cell of a table, or become markup.
func inTable(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;", "`", "'", "*", `\*`, "_", `\_`).Replace(printable(strings.ReplaceAll(text, "\n", " ")))
}

// WriteBadge writes the counts in the format of shields.io's endpoint badge:
// https://shields.io/badges/endpoint-badge.
func (r *Report) WriteBadge(w io.Writer) error {
	color := "brightgreen"
	switch {
	case r.Summary.Failed > 0:
		color = "red"
	case r.Summary.Unknown > 0 || r.Summary.Passed == 0: // nothing that is known to hold
		color = "orange"
	}
	badge, err := json.MarshalIndent(struct {
		Version int    `json:"schemaVersion"`
		Label   string `json:"label"`
		Message string `json:"message"`
		Color   string `json:"color"`
	}{1, "spotdrill " + r.Handler.Name, r.Summary.String(), color}, "", "  ")
	if err != nil {
		return fmt.Errorf("write badge: %w", err)
	}
	_, err = w.Write(append(badge, '\n'))
	return err
}
