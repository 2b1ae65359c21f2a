package verdict

import (
	"slices"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Each check is judged in one way, and by parameters of its own type.
func TestChecksWithParametersOfTheirOwn(t *testing.T) {
	for _, c := range catalogue() {
		if c.judge == nil {
			continue
		}
		if c.always != nil {
			t.Errorf("%s is judged in two ways", c.ID)
		}
		if got := Require(c.judge.zero); got.Kind != string(c.ID) {
			t.Errorf("the parameters of %s are those of %s", c.ID, got.Kind)
		}
		// It finds no history, which is Unknown.
		v := c.judge.judge(newJudge(emptyStory()), c.verdict(), c.judge.zero)
		if !slices.Contains(c.IDs(), v.ID) || v.Outcome == Pass || strings.Contains(v.Got, "parameters") {
			t.Errorf("%s of nothing: %+v", c.ID, v)
		}
		if v := c.judge.judge(newJudge(emptyStory()), c.verdict(), nil); v.Outcome != Unknown {
			t.Errorf("%s with other parameters: %+v", c.ID, v)
		}
	}
}

// A check that no scenario has judges nothing.
func TestEveryScenarioCheckIsUsed(t *testing.T) {
	all, err := Scenarios().Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	live, err := Scenarios().Live()
	if err != nil {
		t.Fatal(err)
	}
	used := map[ID]bool{}
	for _, s := range append(all, live...) {
		for _, v := range Judge(s, history.History{}).Verdicts {
			used[v.ID] = true
			if kind, ok := KindOf(v.ID); !ok || !slices.Contains(kind.IDs(), v.ID) {
				t.Errorf("%s: no kind of check lists %s", s.Name, v.ID)
			}
			if v.Want == "" || v.Check == "" || strings.Contains(v.Check, "%!") {
				t.Errorf("%s: check %q requires %q", s.Name, v.Check, v.Want)
			}
		}
	}
	for _, c := range catalogue() {
		for _, id := range c.IDs() {
			if c.judge != nil && !used[id] {
				t.Errorf("no scenario has %s", id)
			}
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
