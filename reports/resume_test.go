package reports

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// interrupted is the folder of a run of which one drill was played, one was skipped and one never
// began.
func interrupted(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/run")); err != nil {
		t.Fatal(err)
	}
	r, err := Judge(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, outcome := range map[string]verdict.Outcome{"skipped-one": verdict.Skipped, "one-that-never-began": verdict.Unknown} {
		r.Add(NewEntry(verdict.Result{Scenario: name, Profile: "SPOT", Outcome: outcome}))
	}
	r.Timings.Setup, r.Timings.Drills = 3e9, 7e9
	if err := writeFile(filepath.Join(dir, YAMLFile), r.WriteYAML); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestResumeKeepsWhatWasJudged(t *testing.T) {
	dir := interrupted(t)
	r, left, err := Resume(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 || left[0].Scenario != "one-that-never-began" {
		t.Errorf("left: %+v", left)
	}
	if !r.Has("dns-lost-at-exit") || !r.Has("skipped-one") || r.Has("one-that-never-began") || r.Summary.String() != "0 passed, 1 failed, 1 skipped" {
		t.Errorf("kept %d: %s", len(r.Results), r.Summary)
	}
	if r.Timings.Setup != 3e9 || r.Timings.Drills != 7e9 || len(r.Timings.Scenarios) != 1 || r.Folder().Path != dir {
		t.Errorf("timings %+v in %s", r.Timings, r.Folder().Path)
	}
	if r.Results[0].timeline == nil {
		t.Error("what was judged again has no timeline")
	}
}

// A run that was killed has written no report.
func TestResumeWithoutAReport(t *testing.T) {
	dir := interrupted(t)
	if err := os.Remove(filepath.Join(dir, YAMLFile)); err != nil {
		t.Fatal(err)
	}
	r, left, err := Resume(dir)
	if err != nil || len(left) != 0 || len(r.Results) != 1 {
		t.Errorf("%v, left %+v, kept %+v", err, left, r)
	}
	if _, _, err := Resume(t.TempDir()); err == nil {
		t.Error("a folder without a run can be resumed")
	}
}

func TestARunGoesOnInItsEnvironmentOnly(t *testing.T) {
	began := func() *Report {
		r := New(Folder{}, Handler{}, scenarios.Fast, map[string]string{"cores": "2", productKey: "a"})
		r.Add(NewEntry(verdict.Result{Outcome: verdict.Pass}))
		return r
	}
	for name, c := range map[string]struct {
		environment map[string]string
		builds      string
		refused     bool
	}{
		"the same":           {map[string]string{"cores": "2", productKey: "a"}, "a", false},
		"another build":      {map[string]string{"cores": "2", productKey: "b"}, "a, then b", false},
		"another machine":    {map[string]string{"cores": "4", productKey: "a"}, "", true},
		"something unknown":  {map[string]string{productKey: "a"}, "", true},
		"something new":      {map[string]string{"cores": "2", productKey: "a", "kernel": "6"}, "", true},
		"nothing is known":   {nil, "", true},
		"all of it is other": {map[string]string{"cores": "1", productKey: "b"}, "", true},
	} {
		r := began()
		err := r.PlayIn(c.environment)
		if errors.Is(err, ErrOtherEnvironment) != c.refused || !c.refused && r.Environment[productKey] != c.builds {
			t.Errorf("%s: %v, %v", name, err, r.Environment)
		}
	}
	fresh := New(Folder{}, Handler{}, scenarios.Fast, nil)
	if err := fresh.PlayIn(map[string]string{"cores": "2"}); err != nil || fresh.Environment["cores"] != "2" {
		t.Errorf("a run of its own: %v, %v", err, fresh.Environment)
	}
}
