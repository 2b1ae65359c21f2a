package coredns

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/coredns/caddy/caddyfile"
)

// WithLameduck returns a Corefile without imports with another lameduck: see Source.WithLameduck.
func WithLameduck(text string, d time.Duration) (string, error) {
	return Source{Text: text}.WithLameduck(d)
}

// WithLameduck returns the text of the Corefile with another lameduck and no other change. If several
// server blocks have health, only the first one waits. If none has, it is added to the block of the
// cluster's zone. It is an error if the lines cannot be changed so, such as those of an imported file.
func (s Source) WithLameduck(d time.Duration) (string, error) {
	before := Read(s)
	if len(before.Health) == 0 {
		return s.add(before, fmt.Sprintf("health {\n    lameduck %s\n}", d), func(c Corefile) bool { return len(c.Health) == 1 && c.Lameduck == d })
	}
	var places []place
	for _, b := range before.parser.blocks {
		if b.has("health") {
			places = append(places, lameduckPlace(b.plugins["health"]))
		}
	}
	lines := strings.SplitAfter(s.Text, "\n")
	changed := map[place]bool{}
	for _, at := range places {
		if at.file != "" {
			return "", fmt.Errorf("the lameduck is set in %s", at.file)
		}
		if changed[at] {
			continue // a snippet, which several blocks import
		}
		if d > 0 && len(changed) == 0 {
			sharing := len(slices.DeleteFunc(slices.Clone(places), func(p place) bool { return p != at }))
			at.set(lines, d/time.Duration(sharing))
		} else {
			at.set(lines, 0)
		}
		changed[at] = true
	}
	return s.checked(before, strings.Join(lines, ""), func(c Corefile) bool {
		return c.Lameduck == d && slices.Equal(c.Health, before.Health)
	}, fmt.Errorf("line %d: the lameduck of this health plugin cannot be changed; write the plugin, its properties and its closing brace on separate lines", places[0].line))
}

// WithReady returns the text of the Corefile with the plugin ready in the server block of the cluster's
// zone, or as it is if it has one.
func (s Source) WithReady() (string, error) {
	before := Read(s)
	if len(before.Ready) > 0 {
		return s.Text, nil
	}
	return s.add(before, "ready", func(c Corefile) bool { return len(c.Ready) == 1 })
}

// errNoBlock reports that there is no server block that a plugin can be added to.
var errNoBlock = errors.New("the Corefile has no server block of its own that a plugin could be added to")

// add adds a plugin to the server block of the cluster's zone, at its beginning.
func (s Source) add(before Corefile, plugin string, ok func(Corefile) bool) (string, error) {
	blocks := before.parser.blocks
	if len(blocks) == 0 {
		return "", errNoBlock
	}
	b := blocks[max(0, slices.IndexFunc(blocks, func(b block) bool { return b.has("kubernetes") }))]
	if b.start.File != "" || b.start.Line == 0 {
		return "", errNoBlock
	}
	lines := strings.SplitAfter(s.Text, "\n")
	indent := "    "
	for _, tokens := range b.plugins {
		if first := tokens[0]; first.File == "" && first.Line > b.start.Line && first.Line <= len(lines) {
			line := lines[first.Line-1]
			indent = line[:len(line)-len(strings.TrimLeft(line, " \t"))]
			break
		}
	}
	at := b.start.Line - 1
	lines[at] = strings.TrimSuffix(lines[at], "\n") + "\n" + indent + strings.ReplaceAll(plugin, "\n", "\n"+indent) + "\n"
	return s.checked(before, strings.Join(lines, ""), ok, errNoBlock)
}

// checked returns the text if it is read as it should be, and CoreDNS does not refuse it for another
// reason than before.
func (s Source) checked(before Corefile, text string, ok func(Corefile) bool, otherwise error) (string, error) {
	s.Text = text
	if after := Read(s); !ok(after) || (after.Refused == "") != (before.Refused == "") || len(after.parser.blocks) != len(before.parser.blocks) {
		return "", otherwise
	}
	return text, nil
}

// place is a line of a health plugin.
type place struct {
	file string
	line int
	kind placeKind
}

type placeKind string

const (
	atLameduck placeKind = "lameduck"
	atBrace    placeKind = "brace"  // the opening one of the plugin
	atPlugin   placeKind = "plugin" // it has no braces
)

// lameduckPlace is where the lameduck of a server block's health plugins is set, or can be.
func lameduckPlace(tokens []caddyfile.Token) place {
	var out place
	d := caddyfile.NewDispenserTokens("", tokens)
	for d.Next() {
		if out.kind != atLameduck {
			out = place{d.File(), d.Line(), atPlugin}
		}
		d.RemainingArgs()
		braces := false
		for d.NextBlock() {
			braces = true
			if d.Val() == "lameduck" {
				out = place{d.File(), d.Line(), atLameduck}
			}
			d.RemainingArgs()
		}
		if out.kind == atPlugin && (braces || d.Val() == "}") {
			out.kind = atBrace
		}
	}
	return out
}

var lameduckLine = regexp.MustCompile(`^(\s*lameduck\s+)\S+`)

// set changes the line.
func (p place) set(lines []string, d time.Duration) {
	line := lines[p.line-1]
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	property := indent + "   lameduck " + d.String() + "\n"
	switch p.kind {
	case atLameduck:
		lines[p.line-1] = lameduckLine.ReplaceAllString(line, "${1}"+d.String())
	case atBrace:
		lines[p.line-1] = strings.TrimSuffix(line, "\n") + "\n" + property
	case atPlugin:
		plugin, comment, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "#")
		if plugin = strings.TrimRight(plugin, " \t"); comment != "" {
			comment = " #" + comment
		}
		lines[p.line-1] = plugin + " {" + comment + "\n" + property + indent + "}\n"
	}
}
