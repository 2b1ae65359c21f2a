package reports

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

// eventLine is an event as people read it: "+12.345s node.cordoned worker3".
func eventLine(e history.Event) string {
	parts := append([]string{"+" + history.Seconds(e.At), string(e.Kind)}, e.Words()...)
	if e.Until != nil {
		parts = append(parts, "until +"+history.Seconds(*e.Until))
	}
	if e.Message != "" {
		parts = append(parts, "message "+e.Message)
	}
	if e.Notice != "" {
		parts = append(parts, "notice "+e.Notice)
	}
	if e.Kind == history.ClusterEvent && e.Owner != "" {
		parts = append(parts, "(by "+e.Owner+")")
	}
	if e.Fault != "" {
		parts = append(parts, "fault "+e.Fault)
	}
	if e.Status != 0 {
		parts = append(parts, fmt.Sprintf("status %d", e.Status))
	}
	for _, name := range sortedKeys(e.Numbers) {
		parts = append(parts, fmt.Sprintf("%s=%g", name, e.Numbers[name]))
	}
	return printable(strings.Join(parts, " "))
}

// printable replaces control characters, which a terminal would obey and XML
// forbids: parts of a finding were written by the handler under test.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

func sortedKeys[K cmp.Ordered](m map[K]float64) []K { return slices.Sorted(maps.Keys(m)) }

// writeFindings writes every verdict other than a pass: what was wanted, what
// was seen and which records show it. The writer keeps its own errors.
func writeFindings(w io.Writer, e Entry, indent string) {
	if e.Deviation != "" {
		_, _ = fmt.Fprintf(w, "%sdocumented deviation of %s: %s\n", indent, e.Handler.Name, printable(e.Deviation))
	}
	for _, v := range e.Verdicts {
		if v.Outcome != verdict.Pass {
			writeFinding(w, e, v, indent)
		}
	}
}

func writeFinding(w io.Writer, e Entry, v verdict.Verdict, indent string) {
	_, _ = fmt.Fprintf(w, "%s%s: %s\n%s  want: %s\n%s  got:  %s\n", indent, v.Check, v.Outcome.Known(), indent, v.Want, indent, printable(v.Got))
	for _, seq := range v.Evidence {
		if line := e.evidence[seq].line; line != "" {
			_, _ = fmt.Fprintf(w, "%s  #%d %s\n", indent, seq, line)
		}
	}
}
