// Package schema_test generates the JSON Schemas in this folder, and the references
// beside it, from the Go types that the loaders decode into; and it holds both to
// what the loaders say. `go test ./docs/schema -update` writes them anew.
package schema_test

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/feature"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/kind"
	"github.com/spotdrill/spotdrill/scenarios"
)

const module = "github.com/spotdrill/spotdrill/"

// document is a kind of YAML file with a schema and a reference.
type document struct {
	name     string // of the files
	title    string
	intro    string // of the reference
	root     any
	packages []string // that its types and their comments are in
	values   map[string][]string
	defaults map[string]any
	exactly  map[string]uint64 // how many fields of a type are to be set
	usual    map[string]string // what fields of that name are, where they do not say it themselves
}

func documents() []document {
	modes := []string{"fresh", "fixed", "all"}
	capacities := []string{kind.Spot, kind.OnDemand}
	sets := []string{string(scenarios.Fast), string(scenarios.Full)}
	probe := scenarios.DefaultProbe()
	return []document{
		{
			name: "scenario", title: "spotdrill scenario", root: scenarios.Scenario{}, packages: []string{"scenarios", "framework/coredns"},
			intro: "A scenario is one YAML file: how the cluster is arranged, what happens, and what must then be found. " +
				"[Writing a scenario](writing-a-scenario.md) shows the way by example; here is every field.",
			values: map[string][]string{
				"Scenario.apiVersion": {scenarios.APIVersion}, "Scenario.kind": {scenarios.Kind}, "Scenario.profile": scenarios.Profiles(),
				"Scenario.sets": sets, "Scenario.feature": feature.Names(), "Scenario.handler": {scenarios.HandlerUnderTest, scenarios.HandlerNone},
				"CoreDNS.placement": history.Words(coredns.Placements()), "Probe.transport": scenarios.Transports(),
				"Pick.capacity": capacities, "Pick.runs": {"coredns"}, "Notice.type": history.Words(history.NoticeTypes()),
				"Fault.type": history.Words(history.FaultTypes()), "Fault.actions": scenarios.FaultActions(),
				"Disturb.handler": history.Words(history.Disturbances()), "Disrupt.coredns": history.Words(history.Disruptions()), "Fault.code": {"ThrottlingException", "RequestThrottled"},
				"Pods.kind": scenarios.PodKinds(), "Budget.unhealthyPodEvictionPolicy": {"IfHealthyBudget", "AlwaysAllow"},
				"DNSLost.mode": modes, "DNSWindow.mode": modes,
			},
			defaults: map[string]any{
				"Scenario.handler": scenarios.HandlerUnderTest, "Probe.transport": string(probe.Transport), "Probe.fresh": probe.Fresh, "Probe.fixed": probe.Fixed,
				"Probe.fixedPorts": probe.FixedPorts, "Probe.control": probe.Control, "Probe.name": probe.Name,
			},
			exactly: map[string]uint64{"Step": 1, "Check": 1, "Await": 2}, // its condition, and timeout
			usual: map[string]string{
				"node": "A name under nodes.", "notice": "The name of a notice step.", "pods": "app, or a kind of the workload's further pods.",
				"within": "The longest that it may take.", "atLeast": "The shortest that it may take.", "minAvailable": "The new value.",
				"after": "How long after the notice.", "min": "The shortest that it may be.", "max": "The longest that it may be.",
			},
		},
		{
			name: "handler", title: "spotdrill handler under test", root: handler.Description{}, packages: []string{"framework/handler"},
			intro: "A handler under test is described by one YAML file. [Testing your own handler](testing-your-handler.md) shows the way by " +
				"example; here is every field.",
			values: map[string][]string{
				"Description.apiVersion": {handler.APIVersion}, "Description.kind": {handler.Kind}, "Description.commitPoint": history.Words(history.CommitPoints()),
				"Description.features": feature.Names(), "Image.built": {"self"}, "Image.recipe": kind.Recipes(), "Workers.capacity": capacities,
			},
			defaults: map[string]any{"Description.commitPoint": string(handler.DefaultCommitPoint), "Ready.timeout": handler.DefaultReadyTimeout.String()},
		},
		{
			name: "sweep", title: "spotdrill matrix", root: scenarios.Sweep{}, packages: []string{"scenarios", "framework/coredns"},
			intro: "A matrix of DNS settings is one YAML file, see [Which lameduck is safe](advice.md); here is every field.",
			values: map[string][]string{
				"Sweep.apiVersion": {scenarios.APIVersion}, "Sweep.kind": {scenarios.SweepKind}, "Sweep.set": sets, "Sweep.mode": modes,
				"Sweep.placement": history.Words(coredns.Placements()),
			},
		},
	}
}

// duration is how strict.Duration reads.
const duration = `^([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))*$`

// schema makes the JSON Schema of the document.
func (d document) schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	r := &jsonschema.Reflector{
		Anonymous: true, ExpandedStruct: true, FieldNameTag: "yaml", Namer: typeName,
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			if t != reflect.TypeFor[strict.Duration]() {
				return nil
			}
			return &jsonschema.Schema{Type: "string", Pattern: duration, Examples: []any{"500ms", "5s", "2m"}}
		},
	}
	for _, folder := range d.packages {
		if err := r.AddGoComments(module+"docs/schema", "../../"+folder, jsonschema.WithFullComment()); err != nil {
			t.Fatal(err)
		}
	}
	root := r.Reflect(d.root)
	root.Title = d.title
	types := map[string]*jsonschema.Schema{typeName(reflect.TypeOf(d.root)): root}
	for name, def := range root.Definitions {
		types[name] = def
	}
	fields := fieldNames(reflect.TypeOf(d.root), map[string]map[string]string{})
	for name, def := range types {
		def.Description = plain(def.Description, fields[name])
		for pair := def.Properties.Oldest(); pair != nil; pair = pair.Next() {
			property := pair.Value
			property.Description = cmp.Or(plain(property.Description, fields[name]), d.usual[pair.Key])
			property.Default = d.defaults[name+"."+pair.Key]
		}
		if n, ok := d.exactly[name]; ok {
			def.MinProperties, def.MaxProperties = &n, &n
		}
	}
	for place, values := range d.values {
		name, field, _ := strings.Cut(place, ".")
		property, ok := types[name].Properties.Get(field)
		if !ok {
			t.Fatalf("%s is not there", place)
		}
		if property.Items != nil {
			property = property.Items
		}
		if property.Ref != "" {
			t.Fatalf("%s is of a type of its own", place)
		}
		for _, value := range values {
			property.Enum = append(property.Enum, value)
		}
	}
	return root
}

// typeName is what the reference calls a type.
func typeName(t reflect.Type) string {
	if t == reflect.TypeFor[coredns.Settings]() {
		return "CoreDNS" // on a page, "settings" could be anything's
	}
	return t.Name()
}

// fieldNames are, by the names of types, the YAML names of Go's fields.
func fieldNames(t reflect.Type, into map[string]map[string]string) map[string]map[string]string {
	for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, t.Kind()) {
		t = t.Elem()
	}
	if _, known := into[typeName(t)]; known || t.Kind() != reflect.Struct {
		return into
	}
	names := map[string]string{}
	into[typeName(t)] = names
	for i := range t.NumField() {
		f := t.Field(i)
		if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); name != "" && name != "-" {
			names[f.Name] = name
			fieldNames(f.Type, into)
		}
	}
	return into
}

var (
	word = regexp.MustCompile(`\b[A-Z][A-Za-z]*\b`)
	// listing is a word on where Go lists the values, which the schema does itself.
	listing = regexp.MustCompile(`[:;,(]? ?\(?\b(see|one of|of) [A-Z][A-Za-z]*s\b\)?`)
)

// plain makes a doc comment a text for those who write YAML: fields by their names
// there, and no word on Go.
func plain(comment string, fields map[string]string) string {
	text := strings.Join(strings.Fields(comment), " ")
	text = listing.ReplaceAllStringFunc(text, func(said string) string {
		if strings.Contains(said, "package") {
			return said
		}
		return ""
	})
	text = word.ReplaceAllStringFunc(text, func(w string) string {
		if name, ok := fields[w]; ok && w != "CoreDNS" && w != "Ready" { // which are names of their own
			return name
		}
		return w
	})
	return strings.TrimSpace(text)
}

// reference writes the schema as a page for people.
func reference(d document, root *jsonschema.Schema) string {
	var b strings.Builder
	name := typeName(reflect.TypeOf(d.root))
	fmt.Fprintf(&b, "# Reference: %s\n\n%s\n\n", strings.TrimPrefix(d.title, "spotdrill "), d.intro)
	fmt.Fprintf(&b, "This page and [its JSON Schema](schema/%s.schema.json) are generated from the Go types that the files are read into.\n", d.name)
	order := []string{name}
	for i := 0; i < len(order); i++ {
		def := root
		if i > 0 {
			def = root.Definitions[order[i]]
		}
		fmt.Fprintf(&b, "\n## %s\n\n", order[i])
		if def.Description != "" {
			fmt.Fprintf(&b, "%s\n\n", def.Description)
		}
		if def.Properties.Len() == 0 {
			b.WriteString("It has no fields: write `{}`.\n")
			continue
		}
		b.WriteString("| Field | Type | What it is |\n|---|---|---|\n")
		for pair := def.Properties.Oldest(); pair != nil; pair = pair.Next() {
			refs := refsOf(pair.Value)
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", pair.Key, typeOf(pair.Value), about(def, pair.Key, pair.Value, root))
			for _, ref := range refs {
				if !slices.Contains(order, ref) {
					order = append(order, ref)
				}
			}
		}
	}
	return b.String()
}

func refName(s *jsonschema.Schema) string { return strings.TrimPrefix(s.Ref, "#/$defs/") }

// refsOf are the types that a field's values are of.
func refsOf(s *jsonschema.Schema) []string {
	for _, part := range []*jsonschema.Schema{s, s.Items, s.AdditionalProperties} {
		if part != nil && part.Ref != "" {
			return []string{refName(part)}
		}
	}
	return nil
}

func typeOf(s *jsonschema.Schema) string {
	switch {
	case s.Ref != "":
		return fmt.Sprintf("[%s](#%s)", refName(s), strings.ToLower(refName(s)))
	case s.Items != nil:
		return "list of " + typeOf(s.Items)
	case s.Type == "object" && s.AdditionalProperties != nil:
		return "map of " + typeOf(s.AdditionalProperties)
	case s.Pattern == duration:
		return "duration"
	}
	return s.Type
}

// about is what a field is: whether it is needed, what it may say, and why.
func about(def *jsonschema.Schema, name string, s, root *jsonschema.Schema) string {
	var parts []string
	if slices.Contains(def.Required, name) {
		parts = append(parts, "**Needed.**")
	}
	values := s.Enum
	if s.Items != nil {
		values = s.Items.Enum
	}
	if len(values) == 1 {
		parts = append(parts, fmt.Sprintf("Only `%v`.", values[0]))
	} else if len(values) > 1 {
		var quoted []string
		for _, v := range values {
			quoted = append(quoted, fmt.Sprintf("`%v`", v))
		}
		parts = append(parts, "One of "+strings.Join(quoted, ", ")+".")
	}
	if s.Default != nil {
		parts = append(parts, fmt.Sprintf("Default `%v`.", s.Default))
	}
	text := s.Description
	if text == "" && s.Ref != "" {
		// A check or a step is told in the first sentence of its own section.
		text, _, _ = strings.Cut(root.Definitions[refName(s)].Description, ". ")
		text = strings.TrimSuffix(text, ".") + "."
	}
	if text != "" && text != "." {
		parts = append(parts, strings.ReplaceAll(text, "|", `\|`))
	}
	return strings.Join(parts, " ")
}
