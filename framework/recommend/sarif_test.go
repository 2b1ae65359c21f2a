package recommend

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// adviceOfFiles is the advice for files with these texts, in pairs of names and texts.
func adviceOfFiles(t *testing.T, namesAndTexts ...string) Advice {
	t.Helper()
	folder := t.TempDir()
	var paths []string
	for i := 0; i < len(namesAndTexts); i += 2 {
		path := filepath.Join(folder, namesAndTexts[i])
		if err := os.WriteFile(path, []byte(namesAndTexts[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	m, err := ReadManifests(nil, "kube-system", paths...)
	if err != nil {
		t.Fatal(err)
	}
	d, err := m.Read(t.Context(), "kube-system", "")
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(d)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestSARIFKeepsItsSchema(t *testing.T) {
	schema := compiled(t)
	for name, a := range map[string]Advice{
		"broken and unknown":    adviceOfFiles(t, "my Corefile: 100%.yaml", "settings: {interruptionQueue: ''}\n", "Corefile", ".:53 {\n    health\n}\n"),
		"nothing":               adviceOfFiles(t, "objects.yaml", file(t, "base.yaml")),
		"of no files":           {Findings: []Finding{breaks("budget", "none")}},
		"without a known place": adviceOfFiles(t, "objects.yaml", file(t, "eks.yaml")),
	} {
		text, err := json.Marshal(a.SARIF("v1.0.0"))
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err == nil {
			err = schema.Validate(decoded)
		}
		if err != nil {
			t.Errorf("%s: %v in %s", name, err, text)
		}
		var log sarifLog
		if err := json.Unmarshal(text, &log); err != nil || len(log.Runs) != 1 || len(log.Runs[0].Results) != len(a.Findings) {
			t.Fatalf("%s: %v, %s", name, err, text)
		}
		for i, r := range log.Runs[0].Results {
			f := a.Findings[i]
			if level := map[bool]string{false: "fail warning", true: "open none"}[f.Unknown]; r.Kind+" "+r.Level != level || log.Runs[0].Tool.Driver.Rules[r.RuleIndex].ID != f.Rule {
				t.Errorf("%s: %+v for %+v", name, r, f)
			}
			if (f.At == nil) != (len(r.Locations) == 0) {
				t.Errorf("%s: %s is at %v, and has the locations %v", name, f.Rule, f.At, r.Locations)
			}
			for _, at := range r.Locations {
				if uri := at.PhysicalLocation.ArtifactLocation.URI; strings.ContainsAny(uri, " ") || at.PhysicalLocation.Region.StartLine != f.At.Line {
					t.Errorf("%s: %s is at %s, %+v", name, f.Rule, uri, at.PhysicalLocation.Region)
				}
			}
		}
	}
}

// A log that breaks the schema is refused: the test above can fail.
func TestTheSchemaOfSARIFRefuses(t *testing.T) {
	if err := compiled(t).Validate(map[string]any{"version": "2.1.0", "runs": []any{map[string]any{"results": []any{map[string]any{"level": "bad"}}}}}); err == nil {
		t.Error("a level that does not exist is accepted")
	}
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile("testdata/sarif-schema-2.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// Each line is one annotation, whatever the files have.
func TestAnnotationsOfGitHub(t *testing.T) {
	evil := "objects,line=1::\n::error::x%0A.yaml"
	a := Advice{Findings: []Finding{
		{Rule: "budget", Got: "a%\r\n::error::gone\x1b[2J", Why: "w", Fix: "f\ng", Source: "s", Drill: "d", At: &Place{evil, 12}},
		{Rule: "lameduck", Unknown: true, Got: "x", Why: "w", Fix: "f", At: &Place{File: stdin, Line: 3}},
		{Rule: "replicas", Unknown: true, Got: "x", Why: "w", Fix: "f", At: &Place{File: "large.json"}},
	}}
	var text strings.Builder
	if err := a.WriteGitHub(&text); err != nil {
		t.Fatal(err)
	}
	want := "::warning file=objects%2Cline=1%3A%3A�%3A%3Aerror%3A%3Ax%250A.yaml,line=12,title=budget::a%25�%0A::error::gone�[2J%0Awhy: w%0Afix: f%0Ag%0Asource: s%0Adrill: spotdrill run d\n" +
		"::notice title=lameduck%2C replicas::x%0Afix: f\n"
	if text.String() != want {
		t.Errorf("got\n%q, want\n%q", text.String(), want)
	}
}
