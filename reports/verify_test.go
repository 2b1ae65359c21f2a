package reports

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// verifiable writes a run whose report can be reproduced, and returns the file.
func verifiable(t *testing.T) string {
	t.Helper()
	return reported(t, copyOfRun(t))
}

func copyOfRun(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(savedRun)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// reported writes the report of the run in dir with all that Verify requires.
func reported(t *testing.T, dir string) string {
	t.Helper()
	r, err := Judge(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	r.Environment = map[string]string{}
	for _, name := range needed() {
		r.Environment[name] = "v1"
	}
	r.Catalogue = scenarios.CatalogueDigest()
	r.Add(NewEntry(verdict.Skip(builtInScenario(t, skipped().Scenario), "not claimed")))
	file := filepath.Join(dir, YAMLFile)
	if err := writeFile(file, r.WriteYAML); err != nil {
		t.Fatal(err)
	}
	return file
}

func builtInScenario(t *testing.T, name string) scenarios.Scenario {
	t.Helper()
	found, err := verdict.Scenarios().Select(scenarios.Fast, []string{name})
	if err != nil {
		t.Fatal(err)
	}
	return found[0]
}

// edit replaces the first occurrence of from in a file.
func edit(t *testing.T, file, from, to string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	edited := bytes.Replace(text, []byte(from), []byte(to), 1)
	if bytes.Equal(edited, text) {
		t.Fatalf("%q is not in %s:\n%s", from, file, text)
	}
	if err := os.WriteFile(file, edited, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAReportThatCanBeReproducedIsVerified(t *testing.T) {
	if _, err := Verify(t.Context(), verifiable(t), false); err != nil {
		t.Error(err)
	}
}

// What a check counted is never written to a file.
func TestAReportOfACheckThatLeavesLossesOutIsVerified(t *testing.T) {
	dir := copyOfRun(t)
	edit(t, filepath.Join(dir, savedScenario, "attempt-2", savedScenario+".yaml"), "mode: fresh, max: 0}", "mode: fresh, max: 0, exceptConntrack: true}")
	file := reported(t, dir)
	if text, err := os.ReadFile(file); err != nil || !bytes.Contains(text, []byte("that connection tracking itself lost")) {
		t.Fatalf("%v; the check leaves nothing out:\n%s", err, text)
	}
	if _, err := Verify(t.Context(), file, false); err != nil {
		t.Error(err)
	}
}

func TestVerifyRejects(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"an unknown field":                  {"kind: DrillReport", "kind: DrillReport\nlucky: true", `:3: unknown field "lucky"`},
		"another version":                   {"spotdrill.dev/v1alpha1", "spotdrill.dev/v9", `it is of "spotdrill.dev/v9"`},
		"what is not YAML":                  {"kind: DrillReport", "kind: [", "report.yaml:"},
		"a handler without a version":       {"version: 0.1.0", `version: ""`, "names no build"},
		"an unreleased build":               {"version: 0.1.0", "version: (devel)", "names no build"},
		"an unknown set":                    {"set: fast", "set: quick", `set: "quick"; allowed: fast, full`},
		"a set-up that is left out":         {"  kernel: v1\n", "", "environment: kernel is missing"},
		"an edited environment":             {"kernel: v1", "kernel: v2", "environmentDigest:"},
		"other tolerances":                  {"unsent_share: 0.02", "unsent_share: 0.5", "tolerances: unsent_share is 0.5, this version judges by 0.02"},
		"a missing tolerance":               {"  edge_ms: 1000\n", "", "tolerances: edge_ms is missing"},
		"a polished summary":                {"summary:\n  passed: 0\n  failed: 1", "summary:\n  passed: 1\n  failed: 0", "the results come to"},
		"a polished outcome":                {"    outcome: fail\n    verdicts:", "    outcome: pass\n    verdicts:", "outcome pass does not follow from its"},
		"an outcome of its own":             {"    outcome: fail\n    verdicts:", "    outcome: fine\n    verdicts:", `outcome "fine" is none of`},
		"a number that is none":             {"lost_control: 0", "lost_control: .nan", "lost_control is NaN"},
		"a polished verdict":                {"12 of 532 lost", "1 of 532 lost", "judged again dns lost (fresh) is fail: 12 of 532 lost"},
		"a negative duration":               {"setupSeconds: 0", "setupSeconds: -1", "is not a number of seconds"},
		"a history from elsewhere":          {"history: dns-lost-at-exit", "history: ../dns-lost-at-exit", "is not within the run's folder"},
		"another text of the scenario":      {"scenarioDigest: sha256:", "scenarioDigest: sha256:0", "does not identify the scenario's text"},
		"a scenario with two entries":       {"scenario: rebalance-recommendation-is-only-told\n    title", "scenario: dns-lost-at-exit\n    title", "has two entries"},
		"a partner that does not name it":   {"attempts: 2", "attempts: 2\n    beside: rebalance-recommendation-is-only-told", "was played at the same time as rebalance-recommendation-is-only-told, which does not show it"},
		"a profile that there is not":       {"profile: REBALANCE\n    coredns", "profile: LUCK\n    coredns", `profile "LUCK"; allowed:`},
		"a cause that there is not":         {"cause: old-entry", "cause: bad-luck", `12 fresh and 0 fixed to cause "bad-luck"; allowed: [node-gone old-entry`},
		"a polished cause":                  {"cause: old-entry", "cause: prober", `losses reported as "12 lost: 12 lost or late at the control`},
		"a title of its own":                {"title: ", "title: Not ", "that of the scenario next to its history is"},
		"a result without its history":      {"    history: dns-lost-at-exit/attempt-2\n", "", "reported as fail without a history to judge"},
		"a repeat that was worse":           {"seconds: 0\n", "seconds: 0\n    repeats: [fail]\n", "outcome skipped, though a repeat was fail"},
		"a handler of another run":          {"name: builtin\n  version: 0.1.0", "name: karpenter\n  version: 0.1.0", "was recorded with builtin 0.1.0; the report is of karpenter 0.1.0"},
		"a version of another run":          {"version: 0.1.0", "version: 0.2.0", "was recorded with builtin 0.1.0; the report is of builtin 0.2.0"},
		"the set of another run":            {"set: fast", "set: full", `was recorded in the set "fast"; the report is of the set "full"`},
		"a run that began later":            {"started: 2026-11-21", "started: 2026-11-22", "its history began at 2026-11-21T22:13:53Z, before the run"},
		"a check that does not show enough": {"want: no error of the harness", `want: ""`, `check "harness" does not describe what was wanted`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := verifiable(t)
			edit(t, file, c.old, c.new)
			if _, err := Verify(t.Context(), file, false); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// A published report has no histories next to it. To verify it, this must be requested
// explicitly.
func TestVerifyRequiresTheHistoriesUnlessTheyAreExcluded(t *testing.T) {
	file := verifiable(t)
	if err := os.RemoveAll(filepath.Join(filepath.Dir(file), savedScenario)); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(t.Context(), file, false); err == nil || !strings.Contains(err.Error(), "cannot be judged again") {
		t.Errorf("error %v", err)
	}
	if _, err := Verify(t.Context(), file, true); err != nil {
		t.Error(err)
	}
}

func TestVerifyNoticesAnEditedHistory(t *testing.T) {
	file := verifiable(t)
	edit(t, filepath.Join(filepath.Dir(file), savedScenario, "attempt-2", history.EventsFile), `"kind":"restored"`, `"kind":"run.error"`)
	if _, err := Verify(t.Context(), file, false); err == nil || !strings.Contains(err.Error(), "check harness: reported as pass") {
		t.Errorf("error %v", err)
	}
}

// A record of another cluster shows nothing about this one.
func TestVerifyNoticesARecordOfAnotherEnvironment(t *testing.T) {
	file := verifiable(t)
	edit(t, filepath.Join(filepath.Dir(file), savedScenario, "attempt-2", history.EventsFile), `"base":`, `"environment":{"kernel":"v2"},"base":`)
	if _, err := Verify(t.Context(), file, false); err == nil || !strings.Contains(err.Error(), `recorded with kernel "v2"; the environment of the report has "v1"`) {
		t.Errorf("error %v", err)
	}
}

// Judging a run again keeps what only its report has.
func TestJudgingARunKeepsWhatOnlyItsReportHas(t *testing.T) {
	file := verifiable(t)
	r, err := Judge(t.Context(), filepath.Dir(file))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Counts{Failed: 1, Skipped: 1, Total: 2}); r.Summary != want {
		t.Errorf("%+v, want %+v", r.Summary, want)
	}
	if r.Environment["kernel"] != "v1" || r.Results[0].Attempts != 2 {
		t.Errorf("environment %v, attempts %d", r.Environment, r.Results[0].Attempts)
	}
}

// A report that leaves out, weakens or renames what a set has is not a report of the set.
func TestVerifyComparesWithTheCatalogue(t *testing.T) {
	const other = "another build's"
	drill := func(name string, ids ...verdict.ID) func(*Report) {
		return func(r *Report) {
			e := NewEntry(verdict.Result{Scenario: name, Outcome: verdict.Pass})
			for _, id := range ids {
				e.Verdicts = append(e.Verdicts, verdict.Verdict{ID: id, Check: string(id), Outcome: verdict.Pass, Want: "w", Got: "g"})
			}
			for i, was := range r.Results {
				if was.Scenario == name {
					e.Title, e.Profile, e.Digest = was.Title, was.Profile, was.Digest
					r.Results[i] = e
				}
			}
		}
	}
	for name, c := range map[string]struct {
		forge    func(*Report)
		old, new string // in the text
		// The preset that it was played with, and the one in its environment if that is another.
		platform, claimed string
		want              string // in the error; empty: it is verified
		covers            string
		unknown           bool
	}{
		"the whole set": {covers: "of set fast with builtin; skipped: state-running-is-ignored,"},
		"a drill that is named as left out": {
			forge: func(r *Report) { r.Results = r.Results[1:] }, covers: "; left out: state-running-is-ignored",
		},
		"a drill that was removed": {
			forge: func(r *Report) { r.Results = r.Results[1:] }, old: "leftOut: [state-running-is-ignored]\n",
			want: "state-running-is-ignored: it is of the set fast; the report has no result of it",
		},
		"a drill that is left out and there": {
			forge: func(r *Report) { r.Results = r.Results[1:] }, old: "leftOut: [", new: "leftOut: [state-stopping-drains-node, ",
			want: "leftOut: state-stopping-drains-node is not a scenario of the set fast without a result",
		},
		"a weakened scenario": {
			forge: func(r *Report) { r.Results[0].Digest = "sha256:" + strings.Repeat("0", 64) },
			want:  "state-running-is-ignored: its text is not that of the built-in scenario",
		},
		"another title":   {forge: func(r *Report) { r.Results[0].Title = "All is well" }, want: `the title is "All is well"`},
		"another profile": {forge: func(r *Report) { r.Results[0].Profile = "SPOT" }, want: "in profile SPOT; the built-in scenario is"},
		"a check that was removed": {
			forge: drill("state-running-is-ignored", "harness"), want: "the built-in scenario has the check untouched, and the report has no verdict of it",
		},
		"with a preset":          {platform: "eks-1.34", covers: "of set fast with builtin"},
		"with another preset":    {platform: "eks-1.34", claimed: "kops", want: "its text is not that of the built-in scenario"},
		"with a preset, unnamed": {claimed: "eks-1.34", want: "its text is not that of the built-in scenario"},
		"with a preset of another build": {
			claimed: "eks-2.0", unknown: true, want: `no platform is named "eks-2.0"`,
		},
		"another build's catalogue": {forge: func(r *Report) { r.Catalogue = other }, unknown: true, want: "was played with the catalogue " + other},
		"no catalogue":              {forge: func(r *Report) { r.Catalogue = "" }, unknown: true, want: "does not record which catalogue"},
		"a removed drill of another build's": {
			forge: func(r *Report) { r.Results, r.Catalogue = r.Results[1:], other }, unknown: true, want: "1 that the report lacks (state-running-is-ignored)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loader := verdict.Scenarios()
			if c.platform != "" {
				p, err := scenarios.PlatformNamed(c.platform)
				if err != nil {
					t.Fatal(err)
				}
				loader.Platform = p
			}
			all, err := loader.Select(scenarios.Fast, nil)
			if err != nil {
				t.Fatal(err)
			}
			forged := sampleReport()
			forged.Results, forged.Catalogue = nil, scenarios.CatalogueDigest()
			for _, s := range all {
				forged.Results = append(forged.Results, NewEntry(verdict.Skip(s, "not claimed")))
			}
			if c.forge != nil {
				c.forge(forged)
			}
			r := sampleReport()
			r.Environment, r.Catalogue = map[string]string{}, forged.Catalogue
			for _, name := range needed() {
				r.Environment[name] = "v1"
			}
			if name := cmp.Or(c.claimed, c.platform); name != "" {
				r.Environment[history.PlatformKey] = name
			}
			r.Results, r.Summary, r.Core, r.Extended, r.Profiles = nil, Counts{}, Counts{}, Counts{}, nil
			for _, e := range forged.Results {
				r.Add(e)
			}
			file := filepath.Join(t.TempDir(), YAMLFile)
			if err := writeFile(file, r.WriteYAML); err != nil {
				t.Fatal(err)
			}
			if c.old != "" {
				edit(t, file, c.old, c.new)
			}
			covers, err := Verify(t.Context(), file, true)
			switch {
			case c.want == "" && (err != nil || !strings.Contains(covers, c.covers)):
				t.Errorf("%q: %v", covers, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrNotComparable) != c.unknown):
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// Published reports are of the builds that played them: nothing in them may be wrong.
func TestPublishedReportsAreNotWrong(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("published", "*", YAMLFile))
	full, fullErr := filepath.Glob(filepath.Join("published", "*", "full", YAMLFile))
	if err != nil || fullErr != nil || len(files) == 0 || len(full) == 0 {
		t.Fatalf("%v, %v, %d and %d reports", err, fullErr, len(files), len(full))
	}
	for _, file := range append(files, full...) {
		if _, err := Verify(t.Context(), file, true); err != nil && !errors.Is(err, ErrNotComparable) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
