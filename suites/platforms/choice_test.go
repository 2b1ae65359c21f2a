package platforms

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
	"github.com/spotdrill/spotdrill/suites/platforms/measured"
)

// A cell is what the tables and labels name.
func TestEveryPlatformHasEachCell(t *testing.T) {
	for _, name := range scenarios.Platforms() {
		all, err := part("", "")
		if err != nil {
			t.Fatal(err)
		}
		cells, err := cellsOf(name, all, measured.Record{})
		if err != nil {
			t.Fatal(err)
		}
		if want := 2 * len(measured.Ways()); len(cells) != want {
			t.Errorf("%s has %d cells, want %d", name, len(cells), want)
		}
		for _, c := range cells {
			s, err := measured.Scenario(c.base, c.base.CoreDNS)
			if err != nil {
				t.Errorf("%s, %s: %v", name, c.way.Name, err)
				continue
			}
			if len(s.Checks) != 1 || s.Checks[0].Kind != "losses" || !s.CoreDNS.Equal(c.base.CoreDNS) || len(s.ShutDown()) != len(c.base.ShutDown()) {
				t.Errorf("%s, %s: what is measured is another drill: %s", name, c.way.Name, s.Text)
			}
			if _, err := verdict.Scenarios().Parse(s.Name+".yaml", s.Text); err != nil {
				t.Errorf("%s, %s: %v", name, c.way.Name, err)
			}
		}
	}
}

func TestPlatformsAreChosen(t *testing.T) {
	now := time.Date(2026, 11, 28, 2, 0, 0, 0, time.UTC)
	if all, err := choose("", now); err != nil || len(all) != len(scenarios.Platforms()) {
		t.Errorf("got %v, %v", all, err)
	}
	if two, err := choose(tonight, now); err != nil || len(two) != nightly || two[0] == two[1] {
		t.Errorf("got %v, %v", two, err)
	}
	if one, err := choose("kops", now); err != nil || len(one) != 1 {
		t.Errorf("got %v, %v", one, err)
	}
	if _, err := choose("kopps", now); err == nil || !strings.Contains(err.Error(), `did you mean "kops"?`) {
		t.Errorf("got %v", err)
	}
}

func TestSettingsAndWaysAreChosen(t *testing.T) {
	for _, c := range []struct{ settings, ways, want, why string }{
		{"", "", "shipped proposed: " + strings.Join(wayNames(), " "), ""},
		{"shipped", "kubectl-drain", "shipped: kubectl-drain", ""},
		{"proposed", "restart,shutdown", "proposed: restart shutdown", ""},
		{"own", "", "", `--settings is "own"; allowed: `},
		{"", "kubectl-drian", "", `did you mean "kubectl-drain"?`},
		{"", "restart,", "", `--ways has ""`},
		{"", "restart, shutdown", "", `did you mean "shutdown"?`},
	} {
		only, err := part(c.settings, c.ways)
		if c.why != "" {
			if err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%q %q: %v, want %q", c.settings, c.ways, err, c.why)
			}
			continue
		}
		var got string
		for _, s := range only.settings {
			got += " " + string(s)
		}
		got += ":"
		for _, w := range only.ways {
			got += " " + w.Name
		}
		if got = strings.TrimSpace(got); err != nil || got != c.want {
			t.Errorf("%q %q: %q, %v, want %q", c.settings, c.ways, got, err, c.want)
		}
	}
}

// The workflow's jobs that matter here.
type workflow struct {
	Jobs map[string]struct {
		Steps []struct {
			If   string
			Run  string
			With struct{ Name, Path string }
		}
	}
}

// night is what a workflow plays of the presets in one night.
type night struct {
	played    map[string]int // cells, by preset
	artifacts []string       // names, of jobs that play some
	problems  []string
}

// nightOf reads the steps `make platforms` of a workflow, as the Makefile and the suite would.
func nightOf(t *testing.T, text []byte, now time.Time) night {
	t.Helper()
	var w workflow
	if err := yaml.Unmarshal(text, &w); err != nil {
		t.Fatal(err)
	}
	n := night{played: map[string]int{}}
	for job, j := range w.Jobs {
		kept := map[string]string{}
		plays := false
		for _, step := range j.Steps {
			if step.With.Path != "" && strings.Contains(step.If, "!cancelled()") {
				kept[step.With.Name] = step.With.Path
			}
			words := strings.Fields(step.Run)
			if len(words) < 2 || words[0] != "make" || words[1] != "platforms" {
				continue
			}
			plays = true
			set := map[string]string{}
			for _, word := range words[2:] {
				name, value, _ := strings.Cut(word, "=")
				set[name] = value
			}
			names, err := choose(set["PLATFORM"], now)
			if err != nil {
				t.Fatal(err)
			}
			only, err := part(set["SETTINGS"], set["WAYS"])
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				n.played[name] += len(only.settings) * len(only.ways)
			}
		}
		if !plays {
			continue
		}
		for _, want := range []string{record, page, "reports/out/platforms/2*/"} {
			if !slices.ContainsFunc(slices.Collect(maps.Values(kept)), func(paths string) bool { return slices.Contains(strings.Fields(paths), want) }) {
				n.problems = append(n.problems, "job "+job+" does not keep "+want)
			}
		}
		for name := range kept {
			if slices.Contains(n.artifacts, name) {
				n.problems = append(n.problems, "two jobs keep "+name)
			}
			n.artifacts = append(n.artifacts, name)
		}
	}
	for _, name := range scenarios.Platforms() {
		if n.played[name] == 0 {
			n.problems = append(n.problems, name+" is not played")
		}
	}
	return n
}

// Each preset has a drill every night, whichever night it is, and what was played is kept.
func TestTheNightPlaysEveryPreset(t *testing.T) {
	text, err := os.ReadFile("../../.github/workflows/nightly.yaml")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 28, 2, 0, 0, 0, time.UTC)
	for _, day := range []time.Time{now, now.AddDate(0, 0, 1), now.AddDate(0, 1, 3)} {
		if n := nightOf(t, text, day); len(n.problems) > 0 {
			t.Errorf("%s: %q", day.Format(time.DateOnly), n.problems)
		}
	}
	// Without the job that plays all of them, the others are missing; and so are artifacts that are not kept.
	for was, becomes := range map[string]string{
		"make platforms SETTINGS=shipped":         "make platforms PLATFORM=kops SETTINGS=shipped",
		"name: platforms-each":                    "name: platforms",
		"suites/platforms/record.yaml\n":          "\n",
		"            reports/out/platforms/2*/\n": "",
	} {
		broken := strings.ReplaceAll(string(text), was, becomes)
		if n := nightOf(t, []byte(broken), now); broken == string(text) || len(n.problems) == 0 {
			t.Errorf("without %q, nothing is missing", was)
		}
	}
}
