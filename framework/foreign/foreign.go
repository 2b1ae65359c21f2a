// Package foreign makes text of others harmless to show: what a handler, a cluster, a report or a file
// of somebody else writes reaches terminals, logs of CI jobs and spreadsheets, which would obey it.
// Everything that writes for people or programs goes through it.
package foreign

import (
	"io"
	"strings"
	"unicode"
)

// Line is a text in one line, without what a terminal would obey (escape sequences, and characters
// that are invisible or turn the direction of writing), and without what a CI log would take for a
// command: "::error" at the beginning, and "##[" or "##vso[" anywhere.
func Line(s string) string {
	return command(strings.Map(shown, s))
}

// Lines is Line for each line of a text. Tabs stay.
func Lines(s string) string {
	lines := strings.Split(Page(s), "\n")
	for i, line := range lines {
		lines[i] = command(line)
	}
	return strings.Join(lines, "\n")
}

// Page is a text that no terminal and no CI log reads, such as HTML: nothing in it is invisible or turns
// the direction of writing. Tabs and ends of lines stay.
func Page(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' {
			return r
		}
		return shown(r)
	}, s)
}

// Cell is a text in a cell of a table that a spreadsheet reads: none is a formula.
func Cell(s string) string {
	s = Line(s)
	if trimmed := strings.TrimLeft(s, " "); trimmed != "" && strings.ContainsRune("=+-@|", rune(trimmed[0])) {
		return "'" + s
	}
	return s
}

// Named reports whether a text is fit for a name: of a handler, a version, a scenario or a run. It has
// printable characters only, and not too many of them.
func Named(s string) bool {
	const most = 512
	return len(s) <= most && Line(s) == s
}

func shown(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return unicode.ReplacementChar
}

// command takes apart what GitHub and Azure read as a command in a log. They ignore space before it.
func command(line string) string {
	if text := strings.TrimLeftFunc(line, unicode.IsSpace); strings.HasPrefix(text, "::") {
		line = line[:len(line)-len(text)] + ": " + text[1:]
	}
	return strings.NewReplacer("##[", "# #[", "##vso[", "# #vso[").Replace(line)
}

// Writer passes on what is written to it, as Lines does.
func Writer(to io.Writer) io.Writer { return writer{to} }

type writer struct{ to io.Writer }

// Write takes whole lines, or parts that begin with none of a command.
func (w writer) Write(text []byte) (int, error) {
	if _, err := io.WriteString(w.to, Lines(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}
