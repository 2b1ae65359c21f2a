package reports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/spotdrill/spotdrill/framework/foreign"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

// WriteMarkdown writes the report for the summary of a CI job: the counts, the first drill that did not
// pass, with its findings and how to play it again, and a table of all drills.
func (r *Report) WriteMarkdown(w io.Writer) error {
	tmpl, err := template.New("summary.md").Funcs(template.FuncMap{"cell": inTable, "code": inCode, "word": word}).ParseFS(pageFiles, "page/summary.md")
	if err != nil {
		return fmt.Errorf("read the summary's template: %w", err)
	}
	shown := struct {
		*Report
		Facts    []fact
		First    *Entry     // nil if everything passed
		Measured [][]string // of DNS, below their head; none if nothing was probed
	}{Report: r, Facts: r.facts()}
	if rows := measuredRows(r.Results); len(rows) > 0 {
		shown.Measured = append([][]string{measuredHead, slices.Repeat([]string{"---"}, len(measuredHead))}, rows...)
	}
	if bad := r.notPassed(); len(bad) > 0 {
		shown.First = &bad[0]
	}
	var b bytes.Buffer
	if err := tmpl.Execute(&b, shown); err != nil {
		return fmt.Errorf("render the summary: %w", err)
	}
	_, err = io.WriteString(w, foreign.Lines(b.String()))
	return err
}

// Finding is why the entry did not pass, in one line; "" if it did.
func (e Entry) Finding() string {
	if e.Outcome.Known() == verdict.Pass {
		return ""
	}
	return reason(e)
}

// Fixes are what to change about what did not pass, each once, with the checks that it is for.
func (e Entry) Fixes() (fixes []CheckFix) {
	for _, v := range e.Verdicts {
		fix := v.Fix()
		if fix == "" {
			continue
		}
		i := slices.IndexFunc(fixes, func(f CheckFix) bool { return f.Fix == fix })
		if i < 0 {
			fixes = append(fixes, CheckFix{v.Check, fix})
			continue
		}
		fixes[i].Checks += ", " + v.Check
	}
	return fixes
}

// CheckFix is what to change so that checks pass.
type CheckFix struct{ Checks, Fix string }

// Took is how long the drill took, all attempts together.
func (e Entry) Took() time.Duration { return time.Duration(e.Measured) }

// inTable is a text that cannot end a cell of a table, or become markup.
func inTable(text string) string {
	return strings.NewReplacer("&", "&amp;", `\`, "&#92;", "[", `\[`, "]", `\]`, "|", `\|`, "<", "&lt;", ">", "&gt;", "`", "'", "*", `\*`, "_", `\_`).Replace(printable(strings.ReplaceAll(text, "\n", " ")))
}

// inCode is a text between backticks, on one line.
func inCode(text string) string { return strings.ReplaceAll(printable(text), "`", "'") }

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
	badge, err := json.MarshalIndent(map[string]any{
		"schemaVersion": 1, "label": "spotdrill " + r.Handler.Name, "message": r.Summary.String(), "color": color,
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("write badge: %w", err)
	}
	_, err = w.Write(append(badge, '\n'))
	return err
}
