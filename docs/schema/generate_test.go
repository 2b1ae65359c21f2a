// Package schema_test generates the JSON Schemas in this folder, and the references in
// the folder above, from the Go types that the loaders decode into. It checks that both
// are consistent with the loaders. `go test ./docs/schema -update` writes them again.
package schema_test

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/feature"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/framework/verdict"
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
	packages []string            // with its types and their comments
	values   map[string][]string // that are allowed for a field, if its type does not show it
	defaults map[string]any
	exactly  map[string]uint64 // the number of fields of a type that must be set
	usual    map[string]string // texts for fields of that name without a comment
}

// enums are the types with a closed list of values.
func enums() map[reflect.Type][]string {
	return map[reflect.Type][]string{
		reflect.TypeFor[coredns.Placement]():                 history.Words(coredns.Placements()),
		reflect.TypeFor[coredns.AntiAffinity]():              history.Words(coredns.AntiAffinities()),
		reflect.TypeFor[history.ProxyMode]():                 history.Words(history.ProxyModes()),
		reflect.TypeFor[history.NoticeType]():                history.Words(history.AllNoticeTypes()),
		reflect.TypeFor[history.FaultType]():                 history.Words(history.FaultTypes(history.FaultTargets()...)),
		reflect.TypeFor[history.CommitPoint]():               history.Words(history.CommitPoints()),
		reflect.TypeFor[scenarios.Set]():                     history.Words(scenarios.Sets()),
		reflect.TypeFor[scenarios.Permission]():              history.Words(scenarios.Permissions()),
		reflect.TypeFor[scenarios.Transport]():               history.Words(scenarios.Transports()),
		reflect.TypeFor[history.ConflictMode]():              history.Words(history.ConflictModes()),
		reflect.TypeFor[scenarios.ApplicationTransport]():    history.Words(scenarios.ApplicationTransports()),
		reflect.TypeFor[history.StatusCheck]():               history.Words(history.StatusChecks()),
		reflect.TypeFor[scenarios.Service]():                 history.Words(scenarios.Services()),
		reflect.TypeFor[scenarios.Queue]():                   {string(scenarios.SharedQueue), string(scenarios.OwnQueue)},
		reflect.TypeFor[history.HealthStatus]():              history.Words(history.HealthStatuses()),
		reflect.TypeFor[history.ErrorCode]():                 history.Words(history.ErrorCodes()),
		reflect.TypeFor[history.FaultTarget]():               history.Words(history.FaultTargets()),
		reflect.TypeFor[scenarios.Verb]():                    history.Words(scenarios.Verbs()),
		reflect.TypeFor[scenarios.Target]():                  history.Words(scenarios.Targets()),
		reflect.TypeFor[scenarios.Corefile]():                history.Words(scenarios.Corefiles()),
		reflect.TypeFor[strict.List[history.NoticeSource]](): history.Words(history.NoticeSources()),
	}
}

// lists are the types of enums that may also be a list, and the values in it.
func lists() map[reflect.Type][]string {
	return map[reflect.Type][]string{
		reflect.TypeFor[scenarios.Transport]():               {string(scenarios.UDP), string(scenarios.TCP)},
		reflect.TypeFor[strict.List[history.NoticeSource]](): history.Words(history.NoticeSources()),
	}
}

func documents() []document {
	modes := scenarios.ProbeModes()
	capacities := []string{history.Spot, history.OnDemand}
	probe, application, dns := scenarios.DefaultProbe(), scenarios.DefaultApplicationProbe(), coredns.Defaults()
	return []document{
		{
			name: "scenario", title: "spotdrill scenario", root: scenarios.Scenario{}, packages: []string{"scenarios", "framework/coredns", "framework/fault", "framework/verdict"},
			intro: "A scenario is one YAML file: the state of the cluster, the steps, and the checks. " +
				"[Writing a scenario](writing-a-scenario.md) is an introduction with examples. This page documents every field.",
			values: map[string][]string{
				"Scenario.apiVersion": {scenarios.APIVersion}, "Scenario.kind": {scenarios.Kind}, "Scenario.profile": append(scenarios.Profiles(), scenarios.ObserveProfile),
				"Scenario.feature": feature.Names(), "Scenario.handler": {scenarios.HandlerUnderTest, scenarios.HandlerNone},
				"Pick.capacity": capacities, "Toleration.operator": coredns.Operators(), "Toleration.effect": append(scenarios.TaintEffects(), coredns.NoExecute), "Pick.runs": {"coredns"}, "Taint.effect": scenarios.TaintEffects(), "Notice.action": scenarios.NoticeActions(),
				"Fault.actions": fault.Actions(), "Fault.verbs": fault.Verbs(), "Fault.capacity": capacities,
				"CoreDNS.unhealthyPodEvictionPolicy": scenarios.UnhealthyPodEvictionPolicies(), "TopologySpread.by": coredns.SpreadBy(), "TopologySpread.whenUnsatisfiable": coredns.WhenUnsatisfiable(),
				"Pods.kind": scenarios.PodKinds(), "Budget.unhealthyPodEvictionPolicy": scenarios.UnhealthyPodEvictionPolicies(),
				"Losses.mode": modes, "Calls.to": {string(history.OnQueue), string(history.OnAPI)}, "Do.addOn": scenarios.AddOns(), "Do.placement": {scenarios.Nowhere},
			},
			defaults: map[string]any{
				"Scenario.handler": scenarios.HandlerUnderTest, "Probe.transport": string(probe.Transport), "Probe.fresh": probe.Fresh, "Probe.fixed": probe.Fixed,
				"Probe.fixedPorts": probe.FixedPorts, "Probe.control": probe.Control, "Probe.probers": probe.Probers, "Probe.name": probe.Name,
				"CoreDNS.placement": string(dns.Placement), "CoreDNS.replicas": dns.Replicas, "CoreDNS.lameduck": dns.Lameduck.D().String(), "CoreDNS.gracePeriod": dns.GracePeriod.D().String(),
				"Readiness.period": dns.Readiness.Period.D().String(), "Readiness.failureThreshold": dns.Readiness.FailureThreshold,
				"ApplicationProbe.transport": string(application.Transport), "ApplicationProbe.fresh": application.Fresh, "ApplicationProbe.control": application.Control,
			},
			exactly: map[string]uint64{"Step": 1, "Check": 1, "Await": 2}, // its condition, and timeout
			usual: map[string]string{
				"node": "A name under nodes.", "notice": "The name of a notice step.",
				"pods":   "A group of pods in the workload: app, or the kind of an entry under pods.",
				"within": "The longest time that it may take.",
			},
		},
		{
			name: "handler", title: "spotdrill handler under test", root: handler.Description{}, packages: []string{"framework/handler"},
			intro: "A handler under test is described by one YAML file. [Testing your own handler](testing-your-handler.md) is an introduction " +
				"with examples. This page documents every field.",
			values: map[string][]string{
				"Description.apiVersion": {handler.APIVersion}, "Description.kind": {handler.Kind},
				"Description.features": feature.Names(), "Image.built": {"self"}, "Image.recipe": kind.Recipes(), "Workers.capacity": capacities,
			},
			defaults: map[string]any{"Description.commitPoint": string(handler.DefaultCommitPoint), "Description.reads": string(history.FromQueue), "Ready.timeout": handler.DefaultReadyTimeout.String()},
		},
		{
			name: "sweep", title: "spotdrill matrix", root: scenarios.Sweep{}, packages: []string{"scenarios", "framework/coredns"},
			intro: "A matrix of CoreDNS settings is one YAML file. [Which lameduck is safe](advice.md) is an introduction with an example. " +
				"This page documents every field.",
			values: map[string][]string{"Sweep.apiVersion": {scenarios.APIVersion}, "Sweep.kind": {scenarios.SweepKind}, "Sweep.mode": modes},
		},
		{
			name: "platform", title: "spotdrill platform", root: scenarios.Platform{}, packages: []string{"scenarios", "framework/coredns"},
			intro: "A preset of `--platform` is one YAML file in `scenarios/platforms`: what a distribution of Kubernetes has by default, with a " +
				"source for each value. [Platforms](platforms.md) has what is lost with each. This page documents every field.",
			values: map[string][]string{
				"Platform.apiVersion": {scenarios.APIVersion}, "Platform.kind": {scenarios.PlatformKind}, "Toleration.operator": coredns.Operators(), "Toleration.effect": append(scenarios.TaintEffects(), coredns.NoExecute),
				"CoreDNS.unhealthyPodEvictionPolicy": scenarios.UnhealthyPodEvictionPolicies(), "TopologySpread.by": coredns.SpreadBy(), "TopologySpread.whenUnsatisfiable": coredns.WhenUnsatisfiable(),
			},
			defaults: map[string]any{
				"CoreDNS.placement": string(dns.Placement), "CoreDNS.replicas": dns.Replicas, "CoreDNS.lameduck": dns.Lameduck.D().String(), "CoreDNS.gracePeriod": dns.GracePeriod.D().String(),
				"Readiness.period": dns.Readiness.Period.D().String(), "Readiness.failureThreshold": dns.Readiness.FailureThreshold,
			},
		},
	}
}

// duration matches what strict.Duration accepts.
const duration = `^([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))*$`

// schema makes the JSON Schema of the document.
func (d document) schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	r := &jsonschema.Reflector{
		Anonymous: true, ExpandedStruct: true, FieldNameTag: "yaml", Namer: typeName, Mapper: scalar,
	}
	for _, folder := range d.packages {
		if err := r.AddGoComments(module+"docs/schema", "../../"+folder, jsonschema.WithFullComment()); err != nil {
			t.Fatal(err)
		}
	}
	root := r.Reflect(d.root)
	if _, ok := root.Definitions["Check"]; ok {
		checks := r.Reflect(reflect.New(checkType()).Elem().Interface())
		maps.Copy(root.Definitions, checks.Definitions)
		checks.Definitions = nil
		root.Definitions["Check"] = checks
	}
	root.Title = d.title
	types := map[string]*jsonschema.Schema{typeName(reflect.TypeOf(d.root)): root}
	for name, def := range root.Definitions {
		types[name] = def
	}
	fields := fieldNames(checkType(), fieldNames(reflect.TypeOf(d.root), map[string]map[string]string{}))
	requires := map[string]string{} // by the names of types
	for _, k := range verdict.Kinds() {
		if k.Parameters != nil {
			requires[typeName(k.Parameters)] = k.Requires
		}
	}
	for name, def := range types {
		def.Description = cmp.Or(requires[name], plain(def.Description, fields[name]))
		subject, _, _ := strings.Cut(def.Description, " ")
		def.Description = withoutSubject(def.Description, subject)
		for pair := def.Properties.Oldest(); pair != nil; pair = pair.Next() {
			property := pair.Value
			property.Description = withoutSubject(plain(property.Description, fields[name]), pair.Key)
			if property.Ref == "" { // a type of ours has a text of its own
				property.Description = cmp.Or(property.Description, d.usual[pair.Key])
			}
			property.Default = d.defaults[name+"."+pair.Key]
		}
		def.Required = slices.DeleteFunc(def.Required, func(field string) bool {
			property, _ := def.Properties.Get(field)
			return d.hasDefault(name+"."+field) || property.Ref != "" && d.hasDefault(refName(property)+".")
		})
		if n, ok := d.exactly[name]; ok {
			def.MinProperties, def.MaxProperties = &n, &n
		}
	}
	for place, values := range d.values {
		name, field, _ := strings.Cut(place, ".")
		property, ok := types[name].Properties.Get(field)
		if !ok {
			t.Fatalf("%s does not exist", place)
		}
		if property.Items != nil {
			property = property.Items
		}
		if property.Ref != "" || property.Enum != nil {
			t.Fatalf("the values of %s follow from its type", place)
		}
		property.Enum = enum(values)
	}
	return root
}

// hasDefault reports whether a field, or any field of a type, has a default.
func (d document) hasDefault(prefix string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(d.defaults)), func(of string) bool { return strings.HasPrefix(of, prefix) })
}

// checkType is a struct with a field for each kind of check: what a check is in YAML.
func checkType() reflect.Type {
	var fields []reflect.StructField
	for _, k := range verdict.Kinds() {
		if k.Parameters != nil {
			fields = append(fields, reflect.StructField{
				Name: k.Parameters.Name(), Type: reflect.PointerTo(k.Parameters), Tag: reflect.StructTag(fmt.Sprintf(`yaml:"%s,omitempty"`, k.ID)),
			})
		}
	}
	return reflect.StructOf(fields)
}

// scalar is the schema of a type that YAML writes as one word or a list of them, nil for any other.
func scalar(t reflect.Type) *jsonschema.Schema {
	if t == reflect.TypeFor[strict.Duration]() {
		return &jsonschema.Schema{Type: "string", Pattern: duration, Examples: []any{"500ms", "5s", "2m"}}
	}
	values, ok := enums()[t]
	if !ok {
		return nil
	}
	one := &jsonschema.Schema{Type: "string", Enum: enum(values)}
	if listed, ok := lists()[t]; ok {
		list := &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "string", Enum: enum(listed)}, MinItems: new(uint64(1)), UniqueItems: true}
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{one, list}}
	}
	return one
}

func enum(values []string) []any {
	out := make([]any, len(values))
	for i, value := range values {
		out[i] = value
	}
	return out
}

// typeName is what the reference calls a type.
func typeName(t reflect.Type) string {
	if t == reflect.TypeFor[coredns.Settings]() {
		return "CoreDNS" // on a page, "settings" could be anything's
	}
	return t.Name()
}

// fieldNames maps, for each type by its name, the Go names of its fields to their YAML
// names.
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
		if f.Anonymous {
			maps.Copy(names, fieldNames(f.Type, map[string]map[string]string{})[typeName(f.Type)])
		}
		if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); name != "" && name != "-" {
			names[f.Name] = name
			fieldNames(f.Type, into)
		}
	}
	return into
}

var (
	word = regexp.MustCompile(`\b[A-Z][A-Za-z]*\b`)
	// listing refers to a Go function that lists the values, which the schema does
	// itself.
	listing = regexp.MustCompile(`[:;,(]? ?\(?\b(see|one of|of) [A-Z][A-Za-z]*s\b\)?`)
)

// plain makes a doc comment a text for those who write YAML: fields have their names
// there, and Go is not mentioned.
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

// verb is the one that follows the subject of a doc comment.
var verb = regexp.MustCompile(`^((is|are) |[a-z]+s[ ,]|may |must )`)

// withoutSubject removes the name that a doc comment begins with in Go, which a reader
// of the page sees next to it: "timeout is the longest wait." becomes "The longest wait."
func withoutSubject(text, name string) string {
	rest, ok := cutPrefixFold(text, name+" ")
	if !ok || !verb.MatchString(rest) {
		return capital(text)
	}
	return capital(strings.TrimPrefix(strings.TrimPrefix(rest, "is "), "are "))
}

func cutPrefixFold(text, prefix string) (after string, found bool) {
	if len(text) < len(prefix) || !strings.EqualFold(text[:len(prefix)], prefix) {
		return text, false
	}
	return text[len(prefix):], true
}

func capital(text string) string {
	if text == "" || strings.Contains(strings.Fields(text)[0], "/") { // a path stays as it is
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// reference writes the schema as a page for people.
func reference(d document, root *jsonschema.Schema) string {
	var b strings.Builder
	name := typeName(reflect.TypeOf(d.root))
	fmt.Fprintf(&b, "# Reference: %s\n\n%s\n\n", strings.TrimPrefix(d.title, "spotdrill "), d.intro)
	fmt.Fprintf(&b, "The page and [the JSON Schema](schema/%s.schema.json) are generated from the Go types that the files are read into.\n", d.name)
	order := []string{name}
	for i := 0; i < len(order); i++ {
		def := root
		if i > 0 {
			def = root.Definitions[order[i]]
		}
		fmt.Fprintf(&b, "\n## %s\n\n", order[i])
		if order[i] == "Check" {
			b.WriteString(d.checks(def, root))
			continue
		}
		if def.Description != "" {
			fmt.Fprintf(&b, "%s\n\n", def.Description)
		}
		b.WriteString("| Field | Type | Meaning |\n|---|---|---|\n")
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

// checks is the section about all kinds of checks: their fields. What a check requires is in docs/checks.md.
func (d document) checks(check, root *jsonschema.Schema) string {
	var b strings.Builder
	b.WriteString("[All checks](checks.md) documents what each requires. Exactly one is set, with its fields; those in brackets may be left out. " +
		"Without a text here, they are:\n\n| Field | Meaning |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(d.usual)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, d.usual[name])
	}
	b.WriteString("\n| Check | Fields |\n|---|---|\n")
	for kind := check.Properties.Oldest(); kind != nil; kind = kind.Next() {
		def := root.Definitions[refName(kind.Value)]
		var fields []string
		for pair := def.Properties.Oldest(); pair != nil; pair = pair.Next() {
			field, text := "`"+pair.Key+"`", strings.TrimPrefix(about(def, pair.Key, pair.Value, root), "**Required.** ")
			if !slices.Contains(def.Required, pair.Key) {
				field = "[" + field + "]"
			}
			if pair.Value.Description != d.usual[pair.Key] {
				field += fmt.Sprintf(" (%s): %s", typeOf(pair.Value), text)
			}
			fields = append(fields, field)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", kind.Key, cmp.Or(strings.Join(fields, "<br>"), "none: write `{}`"))
	}
	return b.String()
}

// page is a page next to the references.
var page = regexp.MustCompile(`docs/([a-z-]+\.md)`)

func refName(s *jsonschema.Schema) string { return strings.TrimPrefix(s.Ref, "#/$defs/") }

// refsOf returns the type of a field's values, if it has a section of its own.
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
	case len(s.OneOf) > 0:
		return typeOf(s.OneOf[0]) + " or " + typeOf(s.OneOf[1])
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

// about is the text on a field: whether it is required, its values, and its meaning.
func about(def *jsonschema.Schema, name string, s, root *jsonschema.Schema) string {
	var parts []string
	if slices.Contains(def.Required, name) {
		parts = append(parts, "**Required.**")
	}
	values, oneOf := s.Enum, "One of "
	if len(s.OneOf) > 0 {
		values = s.OneOf[0].Enum
	}
	if s.Items != nil {
		values, oneOf = s.Items.Enum, "Each is one of "
	}
	if len(values) == 1 {
		parts = append(parts, fmt.Sprintf("Only `%v`.", values[0]))
	} else if len(values) > 1 {
		var quoted []string
		for _, v := range values {
			quoted = append(quoted, fmt.Sprintf("`%v`", v))
		}
		parts = append(parts, oneOf+strings.Join(quoted, ", ")+".")
	}
	if s.Default != nil {
		parts = append(parts, fmt.Sprintf("Default `%v`.", s.Default))
	}
	text := s.Description
	if text == "" && s.Ref != "" {
		// The first sentence of the type's own section.
		text, _, _ = strings.Cut(root.Definitions[refName(s)].Description, ". ")
		text = strings.TrimSuffix(text, ".") + "."
	}
	if text != "" && text != "." {
		parts = append(parts, page.ReplaceAllString(strings.ReplaceAll(text, "|", `\|`), "[$1]($1)"))
	}
	return strings.Join(parts, " ")
}
