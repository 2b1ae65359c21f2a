package scenarios

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/framework/files"
	"github.com/spotdrill/spotdrill/framework/history"
)

// A scenario file in an old spelling is an error that shows the new one. A recording keeps the scenario
// as it was played, so that its digest stays: there the old spelling is read as the new one.

// respellings rewrite the fields of a step from its old spelling, by its old name, and return its new
// name. They leave what has the new spelling as it is.
func respellings() map[string]func(fields *yaml.Node) (name string) {
	all := formerActions()
	maps.Copy(all, map[string]func(*yaml.Node) string{
		"fault": func(f *yaml.Node) string {
			on := history.OnQueue
			if slices.Contains(history.FaultTypes(history.OnEC2), history.FaultType(valueOf(f, "type"))) {
				on = history.OnEC2
			}
			return faultOn(on, f)
		},
		"apiFault": func(f *yaml.Node) string {
			switch history.FaultType(valueOf(f, "type")) {
			case history.BlackHole:
				if valueOf(f, "thenReset") != "true" {
					set(f, "silent", "true")
				}
				remove(f, "thenReset")
			case history.WatchEnded:
				remove(f, "verbs")
			}
			return faultOn(history.OnAPI, f)
		},
		"metadataFault": func(f *yaml.Node) string { return faultOn(history.OnMetadata, f) },
	})
	return all
}

func faultOn(on history.FaultTarget, fields *yaml.Node) string {
	if valueOf(fields, "on") == "" {
		fields.Content = append(scalars("on", string(on)), fields.Content...)
	}
	return "fault"
}

// respelled is a part of a scenario that had an old spelling.
type respelled struct {
	line, column, end int // where its text is
	what              string
	now               string // in one line
}

// formerFeatures are settings of a handler that were features.
func formerFeatures() []string {
	return []string{"cordon-only", "cordon-without-taint", "handler-grace-period", "single-worker", "unknown-node-deletion", "rebalance-monitoring", "spot-draining-off", "scheduled-draining-off"}
}

// respellFeature makes a former feature a setting.
func respellFeature(scenario *yaml.Node) []respelled {
	if scenario.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(scenario.Content); i += 2 {
		field, value := scenario.Content[i], scenario.Content[i+1].Value
		if field.Value == "feature" && slices.Contains(formerFeatures(), value) {
			field.Value = "setting"
			return []respelled{{field.Line, field.Column, scenario.Content[i+1].Line, "feature", "setting: " + value}}
		}
	}
	return nil
}

// respell rewrites the steps and checks of a document, and returns those that it changed. What is no
// document of a scenario is left to the loader.
func respell(doc *yaml.Node) []respelled {
	if len(doc.Content) == 0 {
		return nil
	}
	out := respellFeature(doc.Content[0])
	out = append(out, respellList(fieldOf(doc.Content[0], "steps"), "step", respellings())...)
	return append(out, respellList(fieldOf(doc.Content[0], "checks"), "check", formerChecks())...)
}

// respellList rewrites the items of a list, each by its name.
func respellList(list *yaml.Node, what string, rewritings map[string]func(*yaml.Node) string) (out []respelled) {
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	for _, item := range list.Content {
		if item.Kind == yaml.AliasNode {
			item = item.Alias
		}
		if item.Kind != yaml.MappingNode || len(item.Content) != 2 || item.Content[1].Kind != yaml.MappingNode {
			continue
		}
		name, fields := item.Content[0], item.Content[1]
		rewrite, ok := rewritings[name.Value]
		if !ok {
			continue
		}
		was, before, end := name.Value, len(fields.Content), lastLine(item)
		if name.Value = rewrite(fields); name.Value == was && len(fields.Content) == before {
			continue
		}
		out = append(out, respelled{name.Line, name.Column, end, what, inOneLine(item)})
	}
	return out
}

// lastLine is the last line on which a part of a node begins.
func lastLine(n *yaml.Node) (line int) {
	line = n.Line
	for _, c := range n.Content {
		line = max(line, lastLine(c))
	}
	return line
}

// oldSpelling is the error for a file in an old spelling, and what else is wrong with it: as text with the new
// spelling in the same lines.
func (l Loader) oldSpelling(file string, data []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil //nolint:nilerr // the loader reports what is wrong with the YAML
	}
	var errs []error
	lines := strings.Split(string(data), "\n")
	for _, r := range respell(&doc) {
		errs = append(errs, fmt.Errorf("%s:%d: old spelling of a %s; write: %s", file, r.line, r.what, r.now))
		lines[r.line-1] = lines[r.line-1][:r.column-1] + strings.TrimPrefix(r.now, "- ")
		clear(lines[r.line:r.end])
	}
	if len(errs) == 0 {
		return nil
	}
	if text := []byte(strings.Join(lines, "\n")); yaml.Unmarshal(text, &doc) == nil { // else it is not a part of a line
		_, err := l.parse(file, text)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// LoadRecorded reads the scenario that is kept with a recording, in whatever spelling it was played.
func (l Loader) LoadRecorded(file string) (Scenario, error) {
	data, err := files.Read(filepath.Dir(file), filepath.Base(file), mostScenario)
	if err != nil {
		return Scenario{}, fmt.Errorf("read scenario: %w", err)
	}
	return l.ParseRecorded(filepath.ToSlash(file), data)
}

// ParseRecorded is LoadRecorded for a text.
func (l Loader) ParseRecorded(file string, data []byte) (Scenario, error) {
	text := data
	var doc yaml.Node
	if yaml.Unmarshal(data, &doc) == nil && len(respell(&doc)) > 0 {
		var err error
		if text, err = yaml.Marshal(&doc); err != nil {
			return Scenario{}, fmt.Errorf("%s: write the scenario in its new spelling: %w", file, err)
		}
	}
	s, err := l.parse(file, text)
	s.Text = data
	return s, err
}

// fieldOf returns the value of a field; nil if there is none.
func fieldOf(mapping *yaml.Node, name string) *yaml.Node {
	if mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i+1]
		}
	}
	return nil
}

func valueOf(mapping *yaml.Node, name string) string {
	if value := fieldOf(mapping, name); value != nil && value.Kind == yaml.ScalarNode {
		return value.Value
	}
	return ""
}

// set sets a field that is missing.
func set(mapping *yaml.Node, name, value string) {
	if fieldOf(mapping, name) == nil {
		mapping.Content = append(mapping.Content, scalars(name, value)...)
	}
}

func remove(mapping *yaml.Node, name string) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			mapping.Content = slices.Delete(mapping.Content, i, i+2)
			return
		}
	}
}

func scalars(values ...string) []*yaml.Node {
	var out []*yaml.Node
	for _, v := range values {
		out = append(out, &yaml.Node{Kind: yaml.ScalarNode, Value: v})
	}
	return out
}

// inOneLine writes a step or a check as in the catalogue: - fault: {on: queue, name: outage}.
func inOneLine(item *yaml.Node) string {
	fields := yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
	for _, n := range item.Content[1].Content {
		one := *n
		one.HeadComment, one.LineComment, one.FootComment, one.Style = "", "", "", yaml.FlowStyle
		fields.Content = append(fields.Content, &one)
	}
	text, err := yaml.Marshal(&fields)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("- %s: %s", item.Content[0].Value, strings.Join(strings.Fields(string(text)), " "))
}

// formerActions rewrite the nine former kinds of steps that do something to a target.
func formerActions() map[string]func(*yaml.Node) string {
	return map[string]func(*yaml.Node) string{
		"disturb": did("handler", OnHandler, map[string]formerAction{
			"update":    {verb: Restart},
			"terminate": {verb: Delete},
		}),
		"operate": did("action", OnNode, map[string]formerAction{
			"readmit":                    {verb: Uncordon, field: "untaint", value: "true"},
			"delete-node":                {verb: Delete},
			"rejoin":                     {verb: Join},
			"rejoin-without-provider-id": {verb: Join, field: "withoutProviderID", value: "true"},
			"stop-kubelet":               {verb: Stop, target: OnKubelet},
			"start-instance":             {verb: Start, target: OnInstance},
			"initialize":                 {verb: Label},
			"uninitialize":               {verb: Unlabel},
		}),
		"disrupt": did("coredns", OnCoreDNS, map[string]formerAction{
			"drain":          {verb: Drain, target: OnNode},
			"reload":         {verb: Configure, field: "corefile", value: string(SlowCorefile)},
			"break-corefile": {verb: Configure, field: "corefile", value: string(BrokenCorefile)},
			"node-selector":  {verb: Configure, field: "placement", value: Nowhere},
			"lameduck":       {verb: Configure, field: "lameduck", value: "0s"},
		}),
		"reconfigure": func(f *yaml.Node) string { return do(f, Configure, OnHandler) },
		"deploy":      func(f *yaml.Node) string { return do(f, Create, OnWorkload) },
		"grow": func(f *yaml.Node) string {
			set(f, "nodes", "0")
			return do(f, Scale, OnCluster)
		},
		"upgrade":   func(f *yaml.Node) string { return do(f, Upgrade, OnAddOn) },
		"setValues": func(f *yaml.Node) string { return do(f, Configure, OnAddOn) },
		"budget": func(f *yaml.Node) string {
			set(f, "minAvailable", "0")
			if second := take(f, "remove"); second != "" {
				set(f, "budget", second)
				return do(f, Delete, OnBudget)
			}
			return do(f, Configure, OnBudget)
		},
	}
}

// formerAction is what a former action is now: a verb, on another target than the step's, with a field.
type formerAction struct {
	verb         Verb
	target       Target
	field, value string
}

// did rewrites a step that had its action in a field, and acts on a target.
func did(field string, target Target, former map[string]formerAction) func(*yaml.Node) string {
	return func(f *yaml.Node) string {
		action := take(f, field)
		now := former[action]
		if now.field != "" {
			set(f, now.field, now.value)
		}
		return do(f, cmp.Or(now.verb, Verb(action)), cmp.Or(now.target, target))
	}
}

// do begins the fields of a step with its verb and target.
func do(fields *yaml.Node, verb Verb, target Target) string {
	fields.Content = slices.Concat(scalars("verb", string(verb), "target", string(target)), fields.Content)
	return "do"
}

// take removes a field and returns its value.
func take(fields *yaml.Node, name string) string {
	value := valueOf(fields, name)
	remove(fields, name)
	return value
}

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
