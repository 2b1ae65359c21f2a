package reports

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// drillsOfCorpus are drills of the corpus, one for each scenario.
var drillsOfCorpus = []string{
	"dns-lost-without-lameduck", "dns-answers-throughout", "critical-pods-go-last", "budget-that-frees-up", "cut-off-handler-finishes-the-drain",
}

// playedShard makes the report of a run that played some recorded drills, as a session does.
func playedShard(t *testing.T, shard string, drills []string, skipped ...string) *Report {
	t.Helper()
	folder, err := NewFolder(t.TempDir(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	r := New(folder, Handler{Name: "builtin", Version: "v1"}, scenarios.Fast, map[string]string{"cores": "2"})
	r.Shard = shard
	r.Timings.Setup = Seconds(time.Second)
	for _, name := range drills {
		dir := filepath.Join(folder.Path, "unpacked")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unpack(filepath.Join(corpus, name+".tar.gz"), dir); err != nil {
			t.Fatal(err)
		}
		h, err := history.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		attempt := filepath.Join(folder.Path, h.Meta.Scenario, "attempt-1")
		if err := os.MkdirAll(filepath.Dir(attempt), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(dir, attempt); err != nil {
			t.Fatal(err)
		}
		e, _, err := judgeAttempt(folder.Path, attempt)
		if err != nil {
			t.Fatal(err)
		}
		e.Expected, e.Phases = Seconds(time.Second), PhaseTimes{Settling: e.Measured}
		r.Timings.Took(e.Phases)
		r.Add(e)
	}
	for _, name := range skipped {
		r.Add(NewEntry(verdict.Result{Scenario: name, Profile: "DNS", Outcome: verdict.Skipped}))
	}
	r.Timings.Ended(time.Duration(r.Timings.Phases.Total()))
	if err := folder.Write(r); err != nil {
		t.Fatal(err)
	}
	return r
}

// withoutTimes is the report's YAML without what differs between two runs of the same drills.
func withoutTimes(t *testing.T, r *Report) string {
	t.Helper()
	c := *r
	c.Run, c.Started, c.Timings.Setup = "", time.Time{}, 0
	var b bytes.Buffer
	if err := c.WriteYAML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestMergedShardsEqualTheWholeRun(t *testing.T) {
	all, err := verdict.Scenarios().Select(scenarios.Fast, nil)
	if err != nil {
		t.Fatal(err)
	}
	skipped := []string{all[0].Name, all[1].Name}
	first, second := playedShard(t, "1/2", []string{drillsOfCorpus[4], drillsOfCorpus[0]}, skipped[1]), playedShard(t, "2/2", []string{drillsOfCorpus[2], drillsOfCorpus[3], drillsOfCorpus[1]}, skipped[0])
	merged, err := Merge(t.Context(), t.TempDir(), []string{second.folder.Path, first.folder.Path})
	if err != nil {
		t.Fatal(err)
	}
	// The order of a run is that of the catalogue.
	whole := playedShard(t, "", drillsOfCorpus, skipped...)
	inOrder, err := order(scenarios.Fast)
	if err != nil {
		t.Fatal(err)
	}
	sorted := New(whole.folder, whole.Handler, whole.Set, whole.Environment)
	entries := slices.SortedStableFunc(slices.Values(whole.Results), func(a, b Entry) int { return inOrder(a) - inOrder(b) })
	for _, e := range entries {
		sorted.Add(e)
	}
	timings := sorted.Timings.Scenarios
	sorted.Timings = whole.Timings
	sorted.Timings.Scenarios = timings
	if got, want := withoutTimes(t, merged), withoutTimes(t, sorted); got != want {
		t.Errorf("the merged report is\n%s\nwant\n%s", got, want)
	}
	if merged.Timings.Setup != Seconds(2*time.Second) {
		t.Errorf("set-up of two shards: %s", time.Duration(merged.Timings.Setup))
	}
	if err := merged.folder.Write(merged); err != nil {
		t.Fatal(err)
	}
	again, err := Judge(t.Context(), merged.folder.Path)
	if err != nil || withoutTimes(t, again) != withoutTimes(t, merged) {
		t.Errorf("judged again from the copies of the histories: %v", err)
	}
}

func TestOnlyAllShardsOfOneRunAreMerged(t *testing.T) {
	shard := func(name string, change func(*Report)) func(t *testing.T) string {
		return func(t *testing.T) string {
			r := playedShard(t, name, drillsOfCorpus[2:3])
			change(r)
			if err := writeFile(filepath.Join(r.folder.Path, YAMLFile), r.WriteYAML); err != nil {
				t.Fatal(err)
			}
			return r.folder.Path
		}
	}
	same := func(*Report) {}
	first := shard("1/2", same)
	for name, c := range map[string]struct {
		with []func(*testing.T) string
		want string
	}{
		"one is missing":          {nil, "is shard 1/2, and these are 1 report"},
		"one is there twice":      {[]func(*testing.T) string{shard("1/2", same)}, "is shard 1/2, and so is another"},
		"a whole run":             {[]func(*testing.T) string{shard("", same)}, "is the report of a whole run"},
		"no shard":                {[]func(*testing.T) string{shard("two", same)}, "want INDEX/COUNT"},
		"a scenario twice":        {[]func(*testing.T) string{shard("2/2", same)}, "is in two of them"},
		"another set":             {[]func(*testing.T) string{shard("2/2", func(r *Report) { r.Set = scenarios.Full })}, "the set of shard 2/2 is another one"},
		"another handler":         {[]func(*testing.T) string{shard("2/2", func(r *Report) { r.Handler.Version = "v2" })}, "the handler of shard 2/2 is another one"},
		"a second handler":        {[]func(*testing.T) string{shard("2/2", func(r *Report) { r.Other = &Handler{Name: "nth"} })}, "the second handler of shard 2/2 is another one"},
		"another kind of machine": {[]func(*testing.T) string{shard("2/2", func(r *Report) { r.Environment = map[string]string{"cores": "4"} })}, `cores was "2", and is "4"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, dirs := t.TempDir(), []string{first(t)}
			for _, other := range c.with {
				dirs = append(dirs, other(t))
			}
			_, err := Merge(t.Context(), root, dirs)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if !errors.Is(err, ErrNotOneRun) && !errors.Is(err, ErrOtherEnvironment) {
				t.Errorf("the error %v is of no kind", err)
			}
			if left, err := os.ReadDir(root); err != nil || len(left) != 0 {
				t.Errorf("left in the folder: %v, %v", left, err)
			}
		})
	}
}

// interrupted is the folder of a run of which one drill was played, one was skipped and one never
// began.
func interrupted(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/run")); err != nil {
		t.Fatal(err)
	}
	r, err := Judge(t.Context(), dir)
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
	r, left, err := Resume(t.Context(), dir)
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
	r, left, err := Resume(t.Context(), dir)
	if err != nil || len(left) != 0 || len(r.Results) != 1 {
		t.Errorf("%v, left %+v, kept %+v", err, left, r)
	}
	if _, _, err := Resume(t.Context(), t.TempDir()); err == nil {
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
