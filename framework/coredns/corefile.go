// Package coredns reads from CoreDNS's configuration how CoreDNS goes away, and
// sets it. The lexer is CoreDNS's own; files that the configuration imports and
// variables of the environment are those of the pods, and so neither is looked at.
package coredns

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Corefile is what a configuration says of CoreDNS's end.
type Corefile struct {
	// Health is true where some server block has the health plugin.
	Health bool
	// Ready is true where some server block has the ready plugin.
	Ready bool
	// Lameduck is for how long CoreDNS goes on to answer when it is told to end: the
	// sum over the health plugins, which wait one after the other; 0 where none says.
	Lameduck time.Duration
	// Imports are the files that are taken in: what they hold is not known here.
	Imports []string
}

// Parse reads a configuration. A brace without its other one, a snippet that
// contains itself, and a lameduck that is no duration are errors with their lines.
func Parse(text string) (Corefile, error) {
	plugins, imports, err := plugins(text)
	if err != nil {
		return Corefile{}, err
	}
	c := Corefile{Imports: imports}
	for _, p := range plugins {
		switch p.name {
		case "ready":
			c.Ready = true
		case "health":
			c.Health = true
			d, err := p.lameduck()
			if err != nil {
				return Corefile{}, err
			}
			c.Lameduck += d
		}
	}
	return c, nil
}

// WithLameduck returns the configuration with CoreDNS answering for another time
// after it was told to end, and nothing else changed. Of several health plugins the
// first one waits. One without any is an error, there is nothing to set; and so is
// one that writes the plugin and its braces on one line.
func WithLameduck(text string, d time.Duration) (string, error) {
	all, _, err := plugins(text)
	if err != nil {
		return "", err
	}
	health := slices.DeleteFunc(slices.Clone(all), func(p directive) bool { return p.name != "health" })
	if len(health) == 0 {
		return "", fmt.Errorf("the Corefile has no `health { lameduck … }`: CoreDNS would stop answering at once when told to end; add the health plugin to the server block of the cluster's zone")
	}
	lines := strings.SplitAfter(text, "\n")
	set, left := map[int]bool{}, d // a snippet's plugin is in several server blocks
	for _, h := range health {
		if !set[h.line] {
			h.setLameduck(lines, left)
			left, set[h.line] = 0, true
		}
	}
	out := strings.Join(lines, "")
	if after, _, err := plugins(out); err != nil || !waits(after, all, d) {
		return "", fmt.Errorf("line %d: the lameduck of this health plugin cannot be set here; write the plugin, its properties and its closing brace on lines of their own", health[0].line)
	}
	return out, nil
}

// waits is true where the plugins are those of before, and the first health plugin
// waits for so long.
func waits(after, before []directive, d time.Duration) bool {
	if !slices.EqualFunc(after, before, func(a, b directive) bool { return a.name == b.name && slices.Equal(a.args, b.args) }) {
		return false
	}
	first := slices.IndexFunc(after, func(p directive) bool { return p.name == "health" })
	got, err := after[first].lameduck()
	return err == nil && got == d
}

// lameduck is 0 where the health plugin states none.
func (h directive) lameduck() (time.Duration, error) {
	total := time.Duration(0)
	for _, property := range h.body {
		if property.name != "lameduck" {
			continue
		}
		d, err := time.ParseDuration(strings.Join(property.args, " "))
		if err != nil || d < 0 {
			return 0, fmt.Errorf("line %d: lameduck %q is no duration that can be read here; want a number with its unit, such as 5s", property.line, strings.Join(property.args, " "))
		}
		total = d // CoreDNS takes the last one
	}
	return total, nil
}

var lameduckLine = regexp.MustCompile(`^(\s*lameduck\s+)\S+`)

// setLameduck changes the lines that the plugin stands on.
func (h directive) setLameduck(lines []string, d time.Duration) {
	stated := false
	for _, property := range h.body {
		if property.name == "lameduck" {
			lines[property.line-1] = lameduckLine.ReplaceAllString(lines[property.line-1], "${1}"+d.String())
			stated = true
		}
	}
	if stated {
		return
	}
	line := lines[h.line-1]
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	if h.body != nil {
		lines[h.line-1] = strings.TrimSuffix(line, "\n") + "\n" + indent + "   lameduck " + d.String() + "\n"
		return
	}
	plugin, comment, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "#")
	if plugin = strings.TrimRight(plugin, " \t"); comment != "" {
		comment = " #" + comment
	}
	lines[h.line-1] = plugin + " {" + comment + "\n" + indent + "   lameduck " + d.String() + "\n" + indent + "}\n"
}
