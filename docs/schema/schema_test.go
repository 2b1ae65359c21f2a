package schema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

var update = flag.Bool("update", false, "write the schemas and references again")

// fresh compares a file with what would be generated now.
func fresh(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	is, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(is, want) {
		t.Errorf("%s does not match the Go types: go test ./docs/schema -update", file)
	}
}

func TestSchemasAndReferencesAreFresh(t *testing.T) {
	for _, d := range documents() {
		root := d.schema(t)
		text, err := json.MarshalIndent(root, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		fresh(t, d.name+".schema.json", append(text, '\n'))
		fresh(t, "../"+d.name+"-reference.md", []byte(reference(d, root)))
	}
}

func compiled(t *testing.T, name string) *validator.Schema {
	t.Helper()
	c := validator.NewCompiler()
	c.DefaultDraft(validator.Draft2020)
	s, err := c.Compile(name + ".schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// verdictOn validates a YAML file.
func verdictOn(t *testing.T, s *validator.Schema, file string) error {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return validate(t, s, text)
}

func validate(t *testing.T, s *validator.Schema, text []byte) error {
	t.Helper()
	var document any // by YAML 1.2, as the loaders read it: in 1.1, the field "on" of a fault would be true
	if err := yaml.Unmarshal(text, &document); err != nil {
		return err
	}
	asJSON, err := json.Marshal(document)
	if err != nil {
		return err
	}
	value, err := validator.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(value)
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("no files %s (%v)", pattern, err)
	}
	return found
}

func TestWhatTheLoadersAcceptMatchesTheSchema(t *testing.T) {
	for name, patterns := range map[string][]string{
		"platform": {"../../scenarios/platforms/*.yaml"},
		"scenario": {"../../scenarios/catalogue/*/*.yaml", "../../scenarios/testdata/valid.yaml"},
		"handler":  {"../../framework/handler/descriptions/*/handler.yaml", "../../framework/handler/testdata/valid.yaml", "../../framework/handler/testdata/valid-workers.yaml"},
	} {
		s := compiled(t, name)
		for _, pattern := range patterns {
			for _, file := range files(t, pattern) {
				if err := verdictOn(t, s, file); err != nil {
					t.Errorf("%s: %v", file, err)
				}
			}
		}
	}
}

// An editor shows what a schema can express: unknown fields, values and forms. Only the
// loader knows how the parts depend on each other.
func TestTheSchemaRejectsWhatAnEditorCanShow(t *testing.T) {
	scenario, handler := compiled(t, "scenario"), compiled(t, "handler")
	for _, name := range []string{
		"api-version", "kind", "field", "field-nested", "field-in-node", "field-in-step", "profile", "set", "feature", "placement", "handler",
		"duration-without-unit", "duration-negative", "step", "two-steps-in-one", "two-checks-in-one", "empty-step", "check", "notice-type",
		"notice-action", "disturb-handler", "disrupt-coredns", "node-capacity", "node-runs", "fault-type", "fault-action", "fault-code", "dns-mode", "pods-kind", "budget-policy",
		"steps-not-a-list", "nodes-not-a-mapping", "await-without-condition", "await-two-conditions",
	} {
		if err := verdictOn(t, scenario, "../../scenarios/testdata/invalid-"+name+".yaml"); err == nil {
			t.Errorf("the schema accepts invalid-%s.yaml", name)
		}
	}
	for _, name := range []string{"api-version", "kind", "field", "feature", "commit-point", "image-recipe", "workers-field", "field-in-marks"} {
		if err := verdictOn(t, handler, "../../framework/handler/testdata/invalid-"+name+".yaml"); err == nil {
			t.Errorf("the schema accepts invalid-%s.yaml", name)
		}
	}
}

// What the schema rejects, the loader rejects as well.
func TestTheSchemaIsNoStricterThanTheLoader(t *testing.T) {
	s := compiled(t, "scenario")
	for _, file := range files(t, "../../scenarios/testdata/*.yaml") {
		if err := verdictOn(t, s, file); err == nil {
			continue
		}
		if _, err := verdict.Scenarios().LoadFile(file); err == nil {
			t.Errorf("%s: the schema rejects what the loader accepts", file)
		}
	}
}

// A step or a check is described by its own type, whatever fields elsewhere have the
// same name: the step notice is not "the name of a notice step".
func TestStepsAndChecksAreDescribedByTheirTypes(t *testing.T) {
	for _, d := range documents() {
		root := d.schema(t)
		for _, name := range []string{"Step", "Check"} {
			alternatives, ok := root.Definitions[name]
			if !ok {
				continue
			}
			for pair := alternatives.Properties.Oldest(); pair != nil; pair = pair.Next() {
				kind, ok := root.Definitions[refName(pair.Value)]
				if !ok || kind.Description == "" {
					t.Errorf("%s.%s has no type with a description", name, pair.Key)
				}
				if pair.Value.Description != "" {
					t.Errorf("%s.%s has the description %q besides that of its type", name, pair.Key, pair.Value.Description)
				}
			}
		}
	}
}

// Every field has a text, its own or that of its type.
func TestEveryFieldIsDescribed(t *testing.T) {
	for _, d := range documents() {
		root := d.schema(t)
		for name, def := range root.Definitions {
			for pair := def.Properties.Oldest(); pair != nil; pair = pair.Next() {
				if pair.Value.Description == "" && (pair.Value.Ref == "" || root.Definitions[refName(pair.Value)].Description == "") {
					t.Errorf("%s: %s.%s is not described", d.name, name, pair.Key)
				}
			}
		}
	}
}

// Descriptions are for those who write YAML, and do not mention Go.
func TestDescriptionsDoNotMentionGo(t *testing.T) {
	for _, d := range documents() {
		text, err := json.Marshal(d.schema(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"FaultTypes", "NoticeTypes", "PodKinds", "DefaultProbe", "MaxProbers", "DefaultReadyTimeout", "WorkerPlaceholders", "PolicyActions", "CommitPoints", "DefaultCommitPoint"} {
			if strings.Contains(string(text), name) {
				t.Errorf("%s: the schema mentions %s, which is Go", d.name, name)
			}
		}
	}
}

var block = regexp.MustCompile("(?ms)^```yaml\n(.*?)\n```$")

// Examples that readers copy from a page are valid.
func TestExamplesInTheDocsMatchTheSchemas(t *testing.T) {
	seen := map[string]int{}
	for _, page := range append(files(t, "../*.md"), "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			for kind, name := range map[string]string{"kind: Scenario\n": "scenario", "kind: HandlerUnderTest\n": "handler"} {
				if !strings.Contains(m[1], kind) {
					continue
				}
				seen[name]++
				if err := validate(t, compiled(t, name), []byte(m[1])); err != nil {
					t.Errorf("%s: a %s: %v", page, name, err)
				}
			}
		}
	}
	if seen["scenario"] < 1 || seen["handler"] < 1 {
		t.Errorf("examples found: %v", seen)
	}
}

// An editor marks what the loader refuses, and nothing that it accepts: a word or a list of words.
func TestAWordOrAListOfThem(t *testing.T) {
	cases := map[string]struct {
		file, from, to string // in the file, what is replaced by what, with a value for %s
		load           func(string) error
		values         map[string]bool // whether it is allowed
	}{
		"scenario": {
			"../../scenarios/testdata/invalid-metadata-fault-on-demand.yaml", "probe: {}", "probe: {transport: %s}",
			func(file string) error { _, err := verdict.Scenarios().LoadFile(file); return err },
			map[string]bool{
				"udp": true, "tcp": true, "both": true, "[udp]": true, "[tcp]": true, "[udp, tcp]": true, "[tcp, udp]": true,
				"quic": false, "[]": false, "[both]": false, "[udp, udp]": false, "[udp, both]": false, "[quic]": false, "[udp, tcp, tcp]": false,
				"{udp: true}": false, "[[udp]]": false, "5": false, `""`: false,
			},
		},
		"handler": {
			"../../framework/handler/testdata/valid-metadata.yaml", "reads: metadata", "reads: %s",
			func(file string) error { _, err := handler.Load(file); return err },
			map[string]bool{
				"queue": true, "metadata": true, "[queue]": true, "[metadata]": true, "[queue, metadata]": true, "[metadata, queue]": true,
				"mail": false, "[]": false, "[mail]": false, "[queue, mail]": false, "[queue, queue]": false, "{queue: true}": false, "[[queue]]": false, `""`: false,
			},
		},
	}
	manifests, err := os.ReadFile("../../framework/handler/testdata/valid-manifests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range cases {
		base, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		// The rest of the scenario is valid without this step.
		whole := strings.Replace(string(base), "  - fault: {on: metadata, name: f, node: reserved, type: reset, for: 5s}\n", "", 1)
		for value, want := range c.values {
			dir := t.TempDir()
			text := strings.Replace(whole, c.from, fmt.Sprintf(c.to, value), 1)
			file := filepath.Join(dir, "invalid-metadata-fault-on-demand.yaml")
			if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.WriteFile(filepath.Join(dir, "valid-manifests.yaml"), manifests, 0o600)); err != nil {
				t.Fatal(err)
			}
			if err := c.load(file); (err == nil) != want {
				t.Errorf("%s, %s: the loader: %v, want accepted %v", name, value, err, want)
			}
			if err := validate(t, compiled(t, name), []byte(text)); (err == nil) != want {
				t.Errorf("%s, %s: the schema: %v, want accepted %v", name, value, err, want)
			}
		}
	}
}
