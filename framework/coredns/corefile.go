// Package coredns has the settings of CoreDNS that matter when its pods terminate, and reads
// and changes them in a Corefile. The lexer is CoreDNS's own. Imported files and environment
// variables exist only in the pods and are not read.
package coredns

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Corefile is what a Corefile sets for the termination of CoreDNS.
type Corefile struct {
	// Health is set if a server block has the health plugin.
	Health bool
	// Ready is set if a server block has the ready plugin.
	Ready bool
	// Lameduck is how long a terminating CoreDNS continues to answer: the sum over the
	// health plugins, which wait one after the other, or 0 if none has a lameduck.
	Lameduck time.Duration
	// Imports are the imported files, whose content is unknown.
	Imports []string
}

// Parse reads a Corefile. Errors have the line: an unbalanced brace, a snippet that imports
// itself, a lameduck that is not a duration.
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

// WithLameduck returns the Corefile with another lameduck and no other change. If there are
// several health plugins, only the first one waits. It is an error if there is none, or if
// the plugin and its braces are on one line.
func WithLameduck(text string, d time.Duration) (string, error) {
	all, _, err := plugins(text)
	if err != nil {
		return "", err
	}
	health := slices.DeleteFunc(slices.Clone(all), func(p directive) bool { return p.name != "health" })
	if len(health) == 0 {
		return "", fmt.Errorf("the Corefile has no `health { lameduck … }`: CoreDNS would stop answering as soon as it terminates; add the health plugin to the server block of the cluster's zone")
	}
	lines := strings.SplitAfter(text, "\n")
	set, rest := map[int]bool{}, d // a snippet's plugin is in several server blocks
	for _, h := range health {
		if !set[h.line] {
			h.setLameduck(lines, rest)
			rest, set[h.line] = 0, true
		}
	}
	out := strings.Join(lines, "")
	if after, _, err := plugins(out); err != nil || !waits(after, all, d) {
		return "", fmt.Errorf("line %d: the lameduck of this health plugin cannot be changed; write the plugin, its properties and its closing brace on separate lines", health[0].line)
	}
	return out, nil
}

var delayBlock = regexp.MustCompile(`(?s)\ndelayed\.spotdrill\.test:53 \{.*?\n\}\n`)

// WithDelay returns the Corefile with a server block that answers for DelayedName after d, in
// place of a former one; 0 for none.
func WithDelay(text string, d time.Duration) string {
	text = delayBlock.ReplaceAllString(text, "")
	if d == 0 {
		return text
	}
	return text + fmt.Sprintf(`
%s:53 {
    erratic {
        delay 1 %s
    }
}
`, strings.TrimSuffix(DelayedName, "."), d)
}

// waits reports whether the plugins are the same as before, and the first health plugin
// waits that long.
func waits(after, before []directive, d time.Duration) bool {
	if !slices.EqualFunc(after, before, func(a, b directive) bool { return a.name == b.name && slices.Equal(a.args, b.args) }) {
		return false
	}
	first := slices.IndexFunc(after, func(p directive) bool { return p.name == "health" })
	got, err := after[first].lameduck()
	return err == nil && got == d
}

// lameduck returns the lameduck of the health plugin, or 0.
func (h directive) lameduck() (time.Duration, error) {
	total := time.Duration(0)
	for _, property := range h.body {
		if property.name != "lameduck" {
			continue
		}
		d, err := time.ParseDuration(strings.Join(property.args, " "))
		if err != nil || d < 0 {
			return 0, fmt.Errorf("line %d: lameduck %q is not a duration; write a number with its unit, such as 5s", property.line, strings.Join(property.args, " "))
		}
		total = d // CoreDNS uses the last one
	}
	return total, nil
}

var lameduckLine = regexp.MustCompile(`^(\s*lameduck\s+)\S+`)

// setLameduck changes the lines of the plugin.
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
