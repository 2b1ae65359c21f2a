package scenarios

import (
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v4"
)

// formerChecks rewrite the former kinds of checks, by their names. They leave what has the new spelling
// as it is.
func formerChecks() map[string]func(*yaml.Node) string {
	window := []string{"min", "minWindow", "max", "maxWindow"}
	return map[string]func(*yaml.Node) string{
		"allTerminating":    now("drained", nil, "terminating", "true"),
		"applicationLost":   now("losses", nil, "of", "application"),
		"applicationWindow": now("losses", window, "of", "application"),
		"calls":             callsPerSecond,
		"callsBounded":      now("calls", nil, "to", "api"),
		"daemonPodsLeft":    now("noEviction", nil, "daemonPods", "true"),
		"dnsAnswered":       now("losses", []string{"percent", "answered"}, "of", "dns"),
		"dnsLost":           now("losses", nil, "of", "dns"),
		"dnsWindow":         now("losses", window, "of", "dns"),
		"endpointLeft":      now("endpointStays", nil),
		"forgotten":         now("removed", nil),
		"markKept":          now("marked", nil, "untilGone", "true"),
		"markedFirst":       now("marked", nil, "beforeEviction", "true"),
		"nodeEvent":         now("reported", nil),
		"podReported":       now("reported", []string{"says", "text"}),
		"podsLeft":          now("noEviction", nil),
		"terminated":        now("removed", []string{"notice", "of"}),
		"watchedAgain":      now("retried", nil),
	}
}

// now renames fields, each from the first of two names to the second, adds others, and returns the
// kind of check.
func now(kind string, renamed []string, added ...string) func(*yaml.Node) string {
	return func(fields *yaml.Node) string {
		for i := 0; i+1 < len(fields.Content); i += 2 {
			field := fields.Content[i]
			if k := slices.Index(renamed, field.Value); k >= 0 && k%2 == 0 {
				field.Value = renamed[k+1]
			}
		}
		fields.Content = append(scalars(added...), fields.Content...)
		return kind
	}
}

// callsPerSecond rewrites a rate over a time as a number of calls.
func callsPerSecond(fields *yaml.Node) string {
	rate, err := strconv.Atoi(valueOf(fields, "perSecond"))
	over, err2 := time.ParseDuration(valueOf(fields, "over"))
	if err != nil || err2 != nil {
		return "calls"
	}
	remove(fields, "perSecond")
	set(fields, "max", strconv.Itoa(int(float64(rate)*over.Seconds())))
	return now("calls", []string{"over", "per"}, "to", "queue")(fields)
}
