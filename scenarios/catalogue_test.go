package scenarios_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spotdrill/spotdrill/framework/verdict"
	. "github.com/spotdrill/spotdrill/scenarios"
)

// loadedCatalogue is loaded once for all tests. They only read it.
var loadedCatalogue = sync.OnceValues(func() ([]Scenario, error) { return verdict.Scenarios().Catalogue() })

func catalogue(t *testing.T) []Scenario {
	t.Helper()
	all, err := loadedCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(all)
}

func TestCatalogueLoads(t *testing.T) {
	all := catalogue(t)
	files, err := filepath.Glob("catalogue/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(files) || len(all) == 0 {
		t.Errorf("%d scenarios of %d files", len(all), len(files))
	}
	names := map[string]bool{}
	for i, s := range all {
		if names[s.Name] {
			t.Errorf("%s is there twice", s.Name)
		}
		names[s.Name] = true
		if folder := strings.ToLower(s.Profile); filepath.Base(filepath.Dir(s.File)) != folder {
			t.Errorf("%s of profile %s is in %s", s.Name, s.Profile, s.File)
		}
		if s.Expected(Fast) <= 0 || s.Expected(Full) < s.Expected(Fast) {
			t.Errorf("%s is expected to take %s fast and %s full", s.Name, s.Expected(Fast), s.Expected(Full))
		}
		if i > 0 && slices.Index(Profiles(), all[i-1].Profile) > slices.Index(Profiles(), s.Profile) {
			t.Errorf("%s comes before %s", all[i-1].Name, s.Name)
		}
	}
	for _, s := range all {
		if s.Counterpart != "" && (!names[s.Counterpart] || s.Probe == nil) {
			t.Errorf("%s has no probe, or its counterpart %q is unknown", s.Name, s.Counterpart)
		}
	}
	for _, profile := range Profiles() {
		if !slices.ContainsFunc(all, func(s Scenario) bool { return s.Profile == profile }) {
			t.Errorf("no scenario of profile %s", profile)
		}
	}
}

func TestSelectBySet(t *testing.T) {
	all := catalogue(t)
	for _, set := range SetsToPlay() {
		selected, err := verdict.Scenarios().Select(set, nil)
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for _, s := range all {
			_, quiet := s.Claims().Of(Quiet, Exclusive)
			if slices.Contains(s.Sets, set) || set == Handler && slices.Contains(s.Sets, Full) && !quiet {
				want = append(want, s.Name)
			}
		}
		for _, s := range selected {
			got = append(got, s.Name)
		}
		if len(got) == 0 || !slices.Equal(got, want) {
			t.Errorf("set %s has %v, want %v", set, got, want)
		}
	}
}

func TestSelectByName(t *testing.T) {
	own := filepath.Join(t.TempDir(), "valid.yaml")
	text, err := os.ReadFile("testdata/valid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, text, 0o600); err != nil {
		t.Fatal(err)
	}
	selected, err := verdict.Scenarios().Select(Fast, []string{own, "spot-notice-drains-node"})
	if err != nil {
		t.Fatal(err)
	}
	if len(selected) != 2 || selected[0].Name != "valid" || selected[1].Name != "spot-notice-drains-node" {
		t.Errorf("selected %+v", selected)
	}
}

func TestSelectErrors(t *testing.T) {
	for name, c := range map[string]struct {
		set   Set
		names []string
		want  []string
	}{
		"unknown set":      {set: "slow", want: []string{`unknown set "slow"; allowed: fast, full`}},
		"no set":           {want: []string{`unknown set ""; allowed: fast, full`}},
		"unknown scenario": {set: Fast, names: []string{"spot-notice"}, want: []string{`unknown scenario "spot-notice"; did you mean "spot-notice-is-reported"? similar: `, "spot-notice-drains-node", "spotdrill list shows all", "a path that ends in .yaml names a file of your own"}},
		"misspelt":         {set: Fast, names: []string{"coredns-drianed-lameduck0s"}, want: []string{"similar: coredns-drained-lameduck-0s, "}},
		"too short":        {set: Fast, names: []string{"x"}, want: []string{`unknown scenario "x"; similar: `}},
		"no such file":     {set: Fast, names: []string{"none.yaml"}, want: []string{"read scenario: open none.yaml"}},
		"invalid file":     {set: Fast, names: []string{"testdata/invalid-set.yaml"}, want: []string{`testdata/invalid-set.yaml:8: sets: "slow" is not known`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := verdict.Scenarios().Select(c.set, c.names)
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not show %q", err, part)
				}
			}
		})
	}
}

func TestWhatNeedsAHandlerThatWatches(t *testing.T) {
	all := catalogue(t)
	var found []string
	for _, s := range all {
		if s.NeedsWatch() {
			found = append(found, s.Name)
		}
	}
	if want := []string{"ended-watches-begin-again", "idle-handler-leaves-the-api-server-alone"}; !slices.Equal(found, want) {
		t.Errorf("%v, want %v", found, want)
	}
}

// Each drill that such a handler is given must check something.
func TestTheCatalogueForAHandlerThatReadsMetadata(t *testing.T) {
	all := catalogue(t)
	played := 0
	for _, s := range all {
		if s.Handler == HandlerNone || s.NeedsQueue() != "" {
			continue
		}
		played++
		if len(s.WithoutQueue().Checks) == 0 {
			t.Errorf("%s: nothing is checked without a queue", s.Name)
		}
	}
	if played < 40 {
		t.Errorf("only %d scenarios", played)
	}
}

// Whatever pair the rule that was written by hand let play at the same time still may, and no other: with three spot
// nodes, the claims come to the same. A conflict does not depend on the order.
func TestTheCatalogueShares(t *testing.T) {
	all := catalogue(t)
	claims, before := make([]Claims, len(all)), make([]bool, len(all))
	for i, s := range all {
		before[i] = s.Fleet == nil && s.SharedBefore()
		claims[i] = s.Claims().With(HandlerProcess, "") // the session compares the handler's settings
		if why := FixedNodes().Conflict(claims[i]); why != "" {
			t.Errorf("%s cannot be played at all: %s", s.Name, why)
		}
	}
	shared, quiet := 0, 0
	for i, s := range all {
		if s.Probe == nil {
			quiet++
		}
		if before[i] {
			shared++
		}
		for j, o := range all[:i+1] {
			why := FixedNodes().Conflict(claims[i], claims[j])
			if could := before[i] && before[j] && s.CoreDNS.Equal(o.CoreDNS); could != (why == "") {
				t.Errorf("%s and %s could share the cluster before: %t, and now: %q", s.Name, o.Name, could, why)
			}
			if again := FixedNodes().Conflict(claims[j], claims[i]); (again == "") != (why == "") {
				t.Errorf("%s and %s: %q, and in the other order %q", s.Name, o.Name, why, again)
			}
		}
	}
	if shared < quiet/2 {
		t.Errorf("%d of %d scenarios without a probe can share the cluster", shared, quiet)
	}
}

// A kind of step or of condition without words would not show in a report.
func TestEveryStepHasWords(t *testing.T) {
	all := catalogue(t)
	for _, s := range all {
		for i, step := range s.Steps {
			if text := step.String(); text == "" || strings.Contains(text, "  ") || strings.Contains(text, "until ,") || strings.HasSuffix(text, " ") {
				t.Errorf("%s: step %d reads %q", s.Name, i+1, text)
			}
		}
	}
}
