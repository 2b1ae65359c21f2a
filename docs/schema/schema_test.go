package schema_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/spotdrill/spotdrill/scenarios"
)

var update = flag.Bool("update", false, "write the schemas and references anew")

// fresh compares a file with what it would be if it were generated now.
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
		t.Errorf("%s is not as the types are: go test ./docs/schema -update", file)
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
	asJSON, err := yaml.YAMLToJSON(text)
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

func TestWhatTheLoadersTakeKeepsToTheSchema(t *testing.T) {
	for name, patterns := range map[string][]string{
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

// An editor shows what a schema can tell: fields, values and forms that do not
// exist. How parts hang together only the loader knows.
func TestTheSchemaRejectsWhatAnEditorCanShow(t *testing.T) {
	scenario, handler := compiled(t, "scenario"), compiled(t, "handler")
	for _, name := range []string{
		"api-version", "kind", "field", "field-nested", "field-in-node", "field-in-step", "profile", "set", "feature", "placement", "handler",
		"duration-without-unit", "duration-negative", "step", "two-steps-in-one", "two-checks-in-one", "empty-step", "check", "notice-type",
		"node-capacity", "node-runs", "fault-type", "fault-action", "fault-code", "dns-mode", "pods-kind", "budget-policy",
		"steps-not-a-list", "nodes-not-a-mapping", "await-without-condition", "await-two-conditions",
	} {
		if err := verdictOn(t, scenario, "../../scenarios/testdata/invalid-"+name+".yaml"); err == nil {
			t.Errorf("the schema takes invalid-%s.yaml", name)
		}
	}
	for _, name := range []string{"api-version", "kind", "field", "feature", "commit-point", "image-recipe", "workers-field", "field-in-marks"} {
		if err := verdictOn(t, handler, "../../framework/handler/testdata/invalid-"+name+".yaml"); err == nil {
			t.Errorf("the schema takes invalid-%s.yaml", name)
		}
	}
}

// The two must not part: what the schema rejects the loader does as well.
func TestTheSchemaIsNoStricterThanTheLoader(t *testing.T) {
	s := compiled(t, "scenario")
	for _, file := range files(t, "../../scenarios/testdata/*.yaml") {
		if err := verdictOn(t, s, file); err == nil {
			continue
		}
		if _, err := scenarios.LoadFile(file); err == nil {
			t.Errorf("%s: the schema rejects what the loader takes", file)
		}
	}
}

// A description for those who write YAML does not speak of Go.
func TestDescriptionsSpeakOfYAML(t *testing.T) {
	for _, d := range documents() {
		text, err := json.Marshal(d.schema(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"FaultTypes", "NoticeTypes", "PodKinds", "DefaultProbe", "DefaultReadyTimeout", "WorkerPlaceholders", "PolicyActions", "CommitPoints", "DefaultCommitPoint"} {
			if strings.Contains(string(text), name) {
				t.Errorf("%s: the schema speaks of %s, which is Go", d.name, name)
			}
		}
	}
}

var block = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// What readers copy from a page is taken.
func TestExamplesInTheDocsKeepToTheSchemas(t *testing.T) {
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
	if seen["scenario"] < 2 || seen["handler"] < 2 {
		t.Errorf("examples that were found: %v", seen)
	}
}
