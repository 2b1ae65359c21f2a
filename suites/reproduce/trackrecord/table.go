package trackrecord

import (
	"cmp"
	"fmt"
	"os"
	"strings"
)

// begin and end enclose the table in docs/track-record.md.
const (
	begin = "<!-- make reproduce writes this table -->\n\n"
	end   = "\n<!-- the end of the table -->\n"
)

func compareIssues(a, b string) int { return cmp.Compare(strings.ToLower(a), strings.ToLower(b)) }

// Table is the table of all cases in Markdown.
func Table(all []Case, r Record) string {
	var b strings.Builder
	b.WriteString("| Bug | What goes wrong | Introduced | Fixed | Found by | Played | Last reproduced | Command |\n|---|---|---|---|---|---|---|---|\n")
	for _, c := range all {
		played := c.Broken + " red"
		if c.Fixed != "" {
			played += ", " + c.Fixed + " green"
		}
		fixed := c.FixedIn
		if fixed == "" {
			fixed = "not fixed: " + c.NotFixed
		}
		fmt.Fprintf(&b, "| [%s](%s) | %s | %s | %s | `%s` of %s | %s | %s | `make reproduce ISSUE=%s` |\n",
			c.Issue, c.URL, oneLine(c.Bug), c.Introduced, oneLine(fixed), c.Red, c.Drill.Name, played, c.last(r), c.Issue)
	}
	return b.String()
}

// last shows when the case was reproduced last, and whether that still holds.
func (c Case) last(r Record) string {
	row, ok := r.Of(c.Issue)
	switch {
	case !ok:
		return "never"
	case row.Broken.Version != c.Broken || row.version() != c.Fixed:
		return fmt.Sprintf("%s, with other versions", row.Date)
	case row.Digest != c.Drill.Digest():
		return fmt.Sprintf("%s, before its scenario changed", row.Date)
	case c.Plays > 1:
		return fmt.Sprintf("%s, red after %d of at most %d plays", row.Date, row.Broken.Plays, c.Plays)
	}
	return row.Date
}

func (r Row) version() string {
	if r.Fixed == nil {
		return ""
	}
	return r.Fixed.Version
}

func oneLine(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

// Insert is a page with its table replaced. It is an error if the page has no place for
// it.
func Insert(page, table string) (string, error) {
	before, rest, ok := strings.Cut(page, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("the page has no place for the table: want %q and %q", begin, end)
	}
	return before + begin + table + end + after, nil
}

// WriteTable replaces the table of a page.
func WriteTable(page string, all []Case, r Record) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	with, err := Insert(string(text), Table(all, r))
	if err != nil {
		return fmt.Errorf("write the table of %s: %w", page, err)
	}
	if err := os.WriteFile(page, []byte(with), 0o644); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}
