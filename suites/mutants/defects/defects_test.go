package defects

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

const (
	root = "../../.."
	list = "../mutants.yaml"
)

// The list cannot go stale: a change of the handler that breaks an edit fails here.
func TestEveryMutantApplies(t *testing.T) {
	mutants, err := Load(list)
	if err != nil {
		t.Fatal(err)
	}
	if len(mutants) < 20 {
		t.Errorf("%d mutants, want at least 20", len(mutants))
	}
	for _, m := range mutants {
		t.Run(m.Name, func(t *testing.T) {
			path, err := m.Overlay(root, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var overlay struct{ Replace map[string]string }
			if err := json.Unmarshal(data, &overlay); err != nil {
				t.Fatal(err)
			}
			for original, edited := range overlay.Replace {
				if _, err := parser.ParseFile(token.NewFileSet(), edited, nil, parser.AllErrors); err != nil {
					t.Errorf("%s does not parse: %v", original, err)
				}
			}
			if len(overlay.Replace)+len(m.Grants) == 0 {
				t.Error("it changes nothing")
			}
		})
	}
}

func TestAnEditThatDoesNotApplyIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("package a\n\nvar x, y = 1, 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		edits []Edit
		want  string
	}{
		"text that is gone":           {[]Edit{{"a.go", "z", "y"}}, "is 0 times in a.go"},
		"text that is there twice":    {[]Edit{{"a.go", "1", "2"}}, "is 2 times in a.go"},
		"no text":                     {[]Edit{{"a.go", "\n", "y"}}, "not once"},
		"a file that is gone":         {[]Edit{{"b.go", "x", "y"}}, "no such file"},
		"one that the first one took": {[]Edit{{"a.go", "x, y", "a, b"}, {"a.go", "y", "z"}}, "edit 2: the old text is 0 times"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Mutant{Name: "m", Edits: c.edits}.Overlay(dir, t.TempDir())
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "mutant m") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	const good = "caughtBy: {scenario: spot-notice-drains-node, check: marked}, edits: [{file: a.go, old: x, new: y}]"
	for name, c := range map[string]struct{ text, want string }{
		"an unknown field":    {"mutants:\n  - {nme: m}\n", `:2: unknown field "nme"`},
		"no defect":           {"mutants:\n  - {name: m, " + good + "}\n", "mutant 1 (m) requires a name, a defect"},
		"the same name twice": {"mutants:\n  - {name: m, defect: D., " + good + "}\n  - {name: m, defect: D., " + good + "}\n", "mutant m is listed twice"},
		"an unknown scenario": {"mutants:\n  - {name: m, defect: D., caughtBy: {scenario: none, check: marked}, edits: [{file: a.go, old: x, new: y}]}\n", `no scenario is named "none"`},
		"an unknown check":    {"mutants:\n  - {name: m, defect: D., caughtBy: {scenario: spot-notice-drains-node, check: markd}, edits: [{file: a.go, old: x, new: y}]}\n", `spot-notice-drains-node has no check "markd"`},
		"a check of another":  {"mutants:\n  - {name: m, defect: D., caughtBy: {scenario: spot-notice-drains-node, check: resumed}, edits: [{file: a.go, old: x, new: y}]}\n", `spot-notice-drains-node has no check "resumed"`},
		"another subject":     {"mutants:\n  - {name: m, defect: D., caughtBy: {scenario: spot-notice-drains-node, check: marked, subject: vctim}, edits: [{file: a.go, old: x, new: y}]}\n", `has no check "marked vctim"`},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "mutants.yaml")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(file); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	m := Mutant{CaughtBy: Check{Scenario: "s", Check: "marked", Subject: "victim"}}
	for name, c := range map[string]struct {
		verdicts []verdict.Verdict
		want     Fate
		got      string
	}{
		"its check failed":      {[]verdict.Verdict{{ID: "marked", Subject: "victim", Check: "marked victim", Outcome: verdict.Fail, Got: "never"}}, Caught, "never"},
		"its check passed":      {[]verdict.Verdict{{ID: "marked", Subject: "victim", Check: "marked victim", Outcome: verdict.Pass, Got: "after 1s"}}, Survived, "after 1s"},
		"another one failed":    {[]verdict.Verdict{{ID: "marked", Subject: "victim", Check: "marked victim", Outcome: verdict.Pass, Got: "after 1s"}, {ID: "queueEmpty", Check: "queue empty", Outcome: verdict.Fail}}, Survived, "after 1s; failed: queue empty"},
		"its check is unknown":  {[]verdict.Verdict{{ID: "marked", Subject: "victim", Check: "marked victim", Outcome: verdict.Unknown, Got: "no record"}}, NotJudged, "no record"},
		"an outcome of no list": {[]verdict.Verdict{{ID: "marked", Subject: "victim", Check: "marked victim", Got: "nothing"}}, NotJudged, "nothing"},
		"of two, the second failed": {[]verdict.Verdict{
			{ID: "marked", Subject: "victim", Check: "marked victim", Outcome: verdict.Pass, Got: "after 1s"},
			{ID: "marked", Subject: "victim", Check: "marked victim", Outcome: verdict.Fail, Got: "never"},
		}, Caught, "never"},
		"of two, one is unknown": {[]verdict.Verdict{
			{ID: "marked", Subject: "victim", Check: "marked victim", Outcome: verdict.Unknown, Got: "no record"},
			{ID: "marked", Subject: "victim", Check: "marked victim", Outcome: verdict.Pass, Got: "after 1s"},
		}, NotJudged, "no record"},
		"its check is not there": {[]verdict.Verdict{{ID: "marked", Subject: "other", Check: "marked other", Outcome: verdict.Fail}}, NotJudged, `s has no check "marked victim"`},
	} {
		t.Run(name, func(t *testing.T) {
			found, got := m.Judge(verdict.Result{Scenario: "s", Verdicts: c.verdicts})
			if found != c.want || got != c.got {
				t.Errorf("%s: %q, want %s: %q", found, got, c.want, c.got)
			}
		})
	}
}

func TestImpatient(t *testing.T) {
	chosen, err := verdict.Scenarios().Select(scenarios.Fast, []string{"state-stopping-drains-node"})
	if err != nil {
		t.Fatal(err)
	}
	patient := chosen[0]
	s := Impatient(patient)
	if drained := s.Steps[1].Await; drained.Drained != "victim" || drained.Timeout.D() != 30*time.Second {
		t.Errorf("waits for %+v; want 5 s beyond the deadline of 25 s", drained)
	}
	if deleted := s.Steps[2].Await; !reflect.DeepEqual(deleted, patient.Steps[2].Await) {
		t.Errorf("a wait of 15 s has become %+v", deleted)
	}
	if patient.Steps[1].Await.Timeout.D() != 2*time.Minute {
		t.Errorf("the scenario itself was changed: %+v", patient.Steps[1].Await)
	}
	if !reflect.DeepEqual(s.Checks, patient.Checks) {
		t.Error("the checks differ")
	}
}
