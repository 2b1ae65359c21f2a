package measured

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// begin and end enclose the tables in docs/platforms.md.
const (
	begin = "<!-- make platforms writes these tables -->\n\n"
	end   = "\n<!-- the end of the tables -->\n"
)

// unmeasured is the text of a cell without figures.
const unmeasured = "not measured"

// needless is for a cell with proposed settings that would show nothing.
const needless = "–"

// Tables are the tables of all platforms in Markdown.
func Tables(names []string, r Record) (string, error) {
	var b strings.Builder
	b.WriteString("| Platform |")
	for _, w := range Ways() {
		fmt.Fprintf(&b, " %s |", w.Title)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(Ways())) + "\n")
	for _, name := range names {
		fmt.Fprintf(&b, "| [%s](#%s) |", name, anchor(name))
		for _, w := range Ways() {
			text := unmeasured
			if c, ok := r.Of(name, w.Name, Shipped); ok {
				lost, window := c.worst(func(p Play) Ports {
					return Ports{p.Fresh.Asked + p.Fixed.Asked, p.Fresh.Lost + p.Fixed.Lost, max(p.Fresh.Window, p.Fixed.Window)}
				})
				text = c.bounds(lost) + english("%d, %s", lost, seconds(window))
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		b.WriteString("\n")
	}
	for _, name := range names {
		if err := section(&b, name, r); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// section is what was measured on one platform.
func section(b *strings.Builder, name string, r Record) error {
	p, err := scenarios.PlatformNamed(name)
	if err != nil {
		return err
	}
	settings := p.CoreDNS
	settings.Placement = "" // the scenario's
	fmt.Fprintf(b, "\n### %s\n\n%s: %s\n\n", name, p.Title, settings)
	b.WriteString("| Way | Fresh ports | Fixed ports | Fresh ports, proposed | Fixed ports, proposed | What brings it to zero |\n|---|---|---|---|---|---|\n")
	var notes, on, unjudged []string
	for _, w := range Ways() {
		base, err := Base(p, w)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "| %s |", w.Title)
		for _, s := range []Settings{Shipped, Proposed} {
			c, ok := r.Of(name, w.Name, s)
			if !ok {
				text := unmeasured
				if r.Settled(p, w, s, base) {
					text = needless
				}
				fmt.Fprintf(b, " %s | %[1]s |", text)
				continue
			}
			outdated := ""
			if c.Digest != base.Digest() {
				outdated = ", before the preset or the scenario changed"
			}
			for _, of := range []func(Play) Ports{func(p Play) Ports { return p.Fresh }, func(p Play) Ports { return p.Fixed }} {
				fmt.Fprintf(b, " %s%s |", c.text(of), outdated)
			}
			if s == Proposed {
				notes = append(notes, c.CoreDNS)
			}
			on = append(on, c.Date+", "+c.On)
			if c.Unjudged > 0 {
				unjudged = append(unjudged, fmt.Sprintf("%s, as %s, %d", w.Title, s, c.Unjudged))
			}
		}
		fmt.Fprintf(b, " %s |\n", oneLine(r.remedy(p, w, base)))
	}
	if len(unjudged) > 0 {
		unjudged = []string{strings.Join(unjudged, "; ")}
	}
	for _, list := range []struct {
		title string
		of    []string
	}{{"Proposed", notes}, {"Measured", on}, {"Plays that could not be judged and were repeated", unjudged}} {
		slices.Sort(list.of)
		for _, text := range slices.Compact(list.of) {
			fmt.Fprintf(b, "\n%s: %s.\n", list.title, oneLine(text))
		}
	}
	if lacks := p.Lacks(); lacks != "" {
		fmt.Fprintf(b, "\nNot here: %s\n", lacks)
	}
	return nil
}

// remedy is with which settings nothing is lost in a way, as far as it was measured.
func (r Record) remedy(p *scenarios.Platform, w Way, base scenarios.Scenario) string {
	shipped, known := r.current(p.Name, w, Shipped, base)
	proposed, tried := r.current(p.Name, w, Proposed, base)
	switch {
	case known && shipped.lost() == 0:
		return "nothing is lost as shipped"
	case !tried && w.unreported(p):
		return "no setting of CoreDNS: a handler that drains the node"
	case !tried:
		return unmeasured
	}
	changed := changes(base.CoreDNS.String(), proposed.CoreDNS)
	switch {
	case changed == "":
		return "nothing that was tried: no other setting is proposed"
	case proposed.lost() == 0:
		return changed
	}
	if proposed.bounds(proposed.lost()) != "" {
		return english("not known: at most %d lost with %s", proposed.lost(), changed)
	}
	return english("nothing that was tried: up to %d lost with %s", proposed.lost(), changed)
}

// changes are the settings that are not as shipped, in words, with what they were.
func changes(shipped, other string) string {
	was, is := strings.Split(shipped, ", "), strings.Split(other, ", ")
	only := func(of, without []string) []string {
		return slices.DeleteFunc(slices.Clone(of), func(word string) bool { return slices.Contains(without, word) })
	}
	now, before := only(is, was), only(was, is)
	switch {
	case len(now) == 0 && len(before) == 0:
		return ""
	case len(before) == 0:
		return strings.Join(now, ", ")
	case len(now) == 0:
		return "without " + strings.Join(before, ", ")
	}
	return strings.Join(now, ", ") + " in place of " + strings.Join(before, ", ")
}

// lost are the most queries that a play lost, on ports of both kinds.
func (c Cell) lost() int {
	most, _ := c.worst(func(p Play) Ports { return Ports{Lost: p.Fresh.Lost + p.Fixed.Lost} })
	return most
}

// worst are the most queries that a play lost, and the longest window of any.
func (c Cell) worst(of func(Play) Ports) (lost int, window strict.Duration) {
	for _, p := range c.Plays {
		lost, window = max(lost, of(p).Lost), max(window, of(p).Window)
	}
	return lost, window
}

// text is a cell of the table: the worst play, and the least and the most of all if they differ.
func (c Cell) text(of func(Play) Ports) string {
	worst := slices.MaxFunc(c.Plays, func(a, b Play) int {
		return cmp.Or(cmp.Compare(of(a).Lost, of(b).Lost), cmp.Compare(of(a).Window, of(b).Window))
	})
	lost, window := c.worst(of)
	leastLost, leastWindow := lost, window
	for _, p := range c.Plays {
		leastLost, leastWindow = min(leastLost, of(p).Lost), min(leastWindow, of(p).Window)
	}
	text := c.bounds(lost) + english("%d of %d, %s", of(worst).Lost, of(worst).Asked, seconds(window))
	if leastLost != lost || leastWindow != window {
		text += english(" (%d to %d, %s to %s)", leastLost, lost, seconds(leastWindow), seconds(window))
	}
	return text
}

// bounds is "at most " if a play of the cell shows no more than a bound.
func (c Cell) bounds(lost int) string {
	if lost > 0 && slices.ContainsFunc(c.Plays, func(p Play) bool { return p.AtMost }) {
		return "at most "
	}
	return ""
}

// english is a text whose numbers are grouped: 12,345.
func english(format string, args ...any) string {
	return message.NewPrinter(language.English).Sprintf(format, args...)
}

func seconds(d strict.Duration) string {
	if d == 0 {
		return "0 s"
	}
	return fmt.Sprintf("%.1f s", max(d.D(), 50*time.Millisecond).Seconds())
}

// anchor is the one that GitHub gives to a heading.
func anchor(heading string) string { return strings.ReplaceAll(heading, ".", "") }

func oneLine(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

// Insert is a page with its tables replaced. It is an error if the page has no place for them.
func Insert(page, tables string) (string, error) {
	before, rest, ok := strings.Cut(page, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("the page has no place for the tables: want %q and %q", begin, end)
	}
	return before + begin + tables + end + after, nil
}

// WritePage replaces the tables of a page.
func WritePage(page string, names []string, r Record) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("write the tables: %w", err)
	}
	tables, err := Tables(names, r)
	if err != nil {
		return fmt.Errorf("write the tables: %w", err)
	}
	with, err := Insert(string(text), tables)
	if err != nil {
		return fmt.Errorf("write the tables of %s: %w", page, err)
	}
	if err := os.WriteFile(page, []byte(with), 0o644); err != nil {
		return fmt.Errorf("write the tables: %w", err)
	}
	return nil
}
