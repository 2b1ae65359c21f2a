package verdict

import (
	"reflect"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Each check of the scenario format has its judge, and each judge of one its place in
// the format: what is written in YAML is what is judged.
func TestScenarioChecksAreTheJudgedOnes(t *testing.T) {
	inYAML := map[ID]bool{}
	format := reflect.TypeFor[scenarios.Check]()
	for i := range format.NumField() {
		name, _, _ := strings.Cut(format.Field(i).Tag.Get("yaml"), ",")
		c, ok := find(ID(name))
		if !ok || c.judge == nil {
			t.Errorf("nothing judges %s", name)
			continue
		}
		inYAML[c.ID] = true
		// With parameters of its own type it finds no history, which is Unknown.
		v := c.judge(newJudge(emptyStory()), c.verdict(), reflect.New(format.Field(i).Type.Elem()).Elem().Interface())
		if v.ID != c.ID || v.Outcome == Pass || strings.Contains(v.Got, "parameters") {
			t.Errorf("%s of nothing: %+v", name, v)
		}
		if v := c.judge(newJudge(emptyStory()), c.verdict(), 7); v.Outcome != Unknown {
			t.Errorf("%s with parameters of another type: %+v", name, v)
		}
	}
	for _, c := range catalogue() {
		if c.judge != nil && !inYAML[c.ID] {
			t.Errorf("no scenario can have %s", c.ID)
		}
		if c.judge != nil && c.always != nil {
			t.Errorf("%s is judged in two ways", c.ID)
		}
	}
}

// A check that no scenario has judges nothing.
func TestEveryScenarioCheckIsUsed(t *testing.T) {
	all, err := scenarios.Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	live, err := scenarios.Live()
	if err != nil {
		t.Fatal(err)
	}
	used := map[ID]bool{}
	for _, s := range append(all, live...) {
		for _, v := range Judge(s, history.History{}).Verdicts {
			used[v.ID] = true
			if v.Want == "" || v.Check == "" || strings.Contains(v.Check, "%!") {
				t.Errorf("%s: check %q requires %q", s.Name, v.Check, v.Want)
			}
		}
	}
	for _, c := range catalogue() {
		if c.judge != nil && !used[c.ID] {
			t.Errorf("no scenario has %s", c.ID)
		}
	}
}

func TestAnUnknownCheckIsUnknown(t *testing.T) {
	r := Judge(scenarios.Scenario{Checks: []scenarios.Check{{}}}, history.History{})
	if v := r.Verdicts[0]; v.ID != unknownCheck.ID || v.Outcome != Unknown {
		t.Errorf("got %+v", v)
	}
}

func emptyStory() *story.Story { return story.Read(scenarios.Scenario{}, history.History{}) }
