package reports

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/verdict"
)

// The values are published: Fisher's tea and twins, a table of the R manual, one of MATLAB's documentation.
func TestFisherHasThePublishedValues(t *testing.T) {
	for name, c := range map[string]struct {
		before, after Plays
		want          float64
	}{
		"lady tasting tea":          {Plays{Passed: 3, Failed: 1}, Plays{Passed: 1, Failed: 3}, 0.4857142857},
		"twins of criminals":        {Plays{Passed: 10, Failed: 3}, Plays{Passed: 2, Failed: 15}, 0.0005367241},
		"studying and diet":         {Plays{Passed: 1, Failed: 9}, Plays{Passed: 11, Failed: 3}, 0.0027594562},
		"flu shots":                 {Plays{Passed: 3, Failed: 6}, Plays{Passed: 1, Failed: 7}, 0.5764705882},
		"three and three":           {Plays{Passed: 3}, Plays{Failed: 3}, 0.1},
		"four and four":             {Plays{Passed: 4}, Plays{Failed: 4}, 2.0 / 70},
		"one failure after 19":      {Plays{Passed: 19}, Plays{Failed: 1}, 0.05},
		"nothing on one side":       {Plays{Passed: 19, Failed: 2}, Plays{}, 1},
		"no plays":                  {Plays{}, Plays{}, 1},
		"unknown is neither":        {Plays{Passed: 4, Unknown: 7}, Plays{Failed: 4, Skipped: 2}, 2.0 / 70},
		"more than a float can add": {Plays{Passed: 2000}, Plays{Passed: 1000, Failed: 1000}, 0},
	} {
		if got := fisher(c.before, c.after); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: p = %.10f, want %.10f", name, got, c.want)
		}
	}
}

func TestFisherIsSymmetric(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	turned := func(p Plays) Plays { return Plays{Passed: p.Failed, Failed: p.Passed} }
	for range 2000 {
		a := Plays{Passed: random.IntN(30), Failed: random.IntN(30)}
		b := Plays{Passed: random.IntN(30), Failed: random.IntN(30)}
		p := fisher(a, b)
		for _, same := range []float64{fisher(b, a), fisher(turned(a), turned(b)), byLogarithms(a, b)} {
			if math.Abs(p-same) > 1e-9 {
				t.Fatalf("%+v and %+v: %v and %v", a, b, p, same)
			}
		}
		if p <= 0 || p > 1 {
			t.Fatalf("%+v and %+v: p = %v", a, b, p)
		}
		if n := 1 + random.IntN(5); fisher(a, Plays{Passed: n * a.Passed, Failed: n * a.Failed}) != 1 {
			t.Fatalf("%+v and the same share of %d times as many: not 1", a, n)
		}
	}
}

// byLogarithms is Fisher's p-value computed in another way.
func byLogarithms(a, b Plays) float64 {
	choose := func(n, k int) float64 {
		if k < 0 || k > n {
			return math.Inf(-1)
		}
		lg := func(x int) float64 { v, _ := math.Lgamma(float64(x + 1)); return v }
		return lg(n) - lg(k) - lg(n-k)
	}
	passed, all := a.Passed+b.Passed, 0.0
	of := func(x int) float64 {
		return math.Exp(choose(a.judged(), x) + choose(b.judged(), passed-x) - choose(a.judged()+b.judged(), passed))
	}
	for x := 0; x <= passed; x++ {
		if p := of(x); p <= of(a.Passed)*(1+1e-7) {
			all += p
		}
	}
	return all
}

// repeated is a report with one scenario of one check, played once for each letter: p, f, u or s.
func repeated(run, version, digest, outcomes string) *Report {
	r := New(Folder{Run: run}, Handler{Name: "karpenter", Version: version}, "fast", nil)
	var plays []Entry
	for _, letter := range outcomes {
		o := map[rune]verdict.Outcome{'p': verdict.Pass, 'f': verdict.Fail, 'u': verdict.Unknown, 's': verdict.Skipped}[letter]
		plays = append(plays, NewEntry(verdict.Result{
			Scenario: "a-scenario", Profile: "SPOT", Digest: digest, Outcome: o,
			Verdicts: []verdict.Verdict{{ID: "drained", Check: "drained victim", Outcome: o, Want: "it drains", Got: "seen: " + string(o)}},
		}))
	}
	if len(plays) > 0 {
		r.Add(Worst(plays))
	}
	return r
}

func TestChanged(t *testing.T) {
	for name, c := range map[string]struct {
		before, after []*Report
		state         ChangeState
		text          string
	}{
		"fails each time":              {both("pppp"), both("ffff"), Worse, "drained victim: worse: passed 4 of 4 before, 0 of 4 after (p = 0.029)"},
		"passes each time":             {both("ffff"), both("pppp"), Better, "drained victim: better: passed 0 of 4 before, 4 of 4 after (p = 0.029)"},
		"one play each":                {both("p"), both("f"), NotProven, "not proven: passed 1 of 1 before, 0 of 1 after; plays needed: 4 of each, if the shares stay the same"},
		"three plays each":             {both("ppp"), both("fff"), NotProven, "plays needed: 4 of each"},
		"one failure after many":       {both(strings.Repeat("p", 40)), both("f"), NotProven, "passed 40 of 40 before, 0 of 1 after; plays needed: 4 of each"},
		"three failures after many":    {both(strings.Repeat("p", 40)), both("fff"), NotProven, "plays needed: 4 of each"},
		"sometimes":                    {both("pppp"), both("ppff"), NotProven, "passed 4 of 4 before, 2 of 4 after; plays needed: 10 of each"},
		"a small difference":           {both(strings.Repeat("p", 99) + "f"), both(strings.Repeat("p", 98) + "ff"), NotProven, "plays needed: more than 200 of each"},
		"the same share":               {both("pf"), both("ppff"), Alike, "no difference seen: passed 1 of 2 before, 2 of 4 after"},
		"the same":                     {both("p"), both("p"), Alike, "passed 1 of 1 before, 1 of 1 after"},
		"unknown is no pass":           {both("pppp"), both("uuuu"), Unjudged, "passed 4 of 4 before, 0 of 0, 4 unknown after"},
		"unknown is no failure":        {both("uuuu"), both("pppp"), Unjudged, "no play of one side could be judged"},
		"unknown is not the same":      {both("pu"), both("pp"), Unjudged, "passed 1 of 1, 1 unknown before, 2 of 2 after; some plays could not be judged"},
		"unknown next to enough":       {both("ppppu"), both("ppppu"), Alike, "no difference seen: passed 4 of 4, 1 unknown before, 4 of 4, 1 unknown after"},
		"more unknown than enough":     {both("pppp"), both("pppp" + strings.Repeat("u", 20)), Unjudged, "some plays could not be judged"},
		"unknown next to a proof":      {both("ppppu"), both("ffff"), Worse, "passed 4 of 4, 1 unknown before"},
		"skipped is no pass":           {both("p"), both("s"), Unjudged, "it was skipped after: seen: skipped"},
		"not played":                   {both("p"), []*Report{repeated("r", "v2", "d", "")}, Unjudged, "it was not played after"},
		"several runs":                 {[]*Report{repeated("r-1", "v1", "d", "pp"), repeated("r-2", "v1", "d", "pp")}, []*Report{repeated("r-3", "v2", "d", "f"), repeated("r-4", "v2", "d", "fff")}, Worse, "passed 4 of 4 before, 0 of 4 after"},
		"one run, given twice":         {append(both("pp"), both("pp")...), append(both("ff"), both("ff")...), NotProven, "passed 2 of 2 before, 0 of 2 after"},
		"another text of the scenario": {both("pppp"), []*Report{repeated("r", "v2", "other", "ffff")}, Unjudged, "the text of the scenario is not the same in all plays"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Changed(c.before, c.after)
			if len(got.Checks) != 1 || got.Checks[0].State != c.state || !strings.Contains(got.Checks[0].String(), c.text) {
				t.Errorf("got %v: %v\nwant %s: %s", got.Headline(), got.Checks, c.state, c.text)
			}
		})
	}
	if got := Changed(both("s"), both("s")); len(got.Checks) != 0 {
		t.Errorf("skipped on both sides: %v", got.Checks)
	}
}

func both(outcomes string) []*Report { return []*Report{repeated("run", "v1", "d", outcomes)} }

// A drill that Ctrl-C ended shows nothing about the program.
func TestWhatEndedEarlyIsNoPlay(t *testing.T) {
	early := repeated("r", "v2", "d", "u")
	early.EndedEarly = "interrupted"
	if got := Changed(both("pppp"), append(both("pppp"), early)); got.Count(Alike) != 1 {
		t.Errorf("%v", got.Checks)
	}
	early.Results[0].Outcome = verdict.Fail
	early.Results[0].Verdicts[0].Outcome = verdict.Fail
	if got := Changed(both("pppp"), append(both("ppp"), early)); got.Count(NotProven) != 1 {
		t.Errorf("a failure that was judged before: %v", got.Checks)
	}
}

// All checks of a play that broke are unknown for one reason, which would hide what the other plays show.
func TestAPlayThatBrokeIsShownOnce(t *testing.T) {
	broken := repeated("r", "v2", "d", "u")
	broken.Results[0].Verdicts = append(broken.Results[0].Verdicts, verdict.Verdict{ID: verdict.IDOfHarness, Check: "harness", Outcome: verdict.Unknown, Got: "no node became Ready"})
	got := Changed(both("pppp"), append(both("ffff"), broken))
	if got.Count(Worse) != 1 || got.Count(Unjudged) != 1 || got.Open() != 1 {
		t.Fatalf("%s: %v", got.Headline(), got.Checks)
	}
	if c := got.Checks[0]; c.String() != "unknown; plays that broke: 0 before, 1 after; no check counts them" || c.FirstBefore != nil || c.FirstAfter.Got != "no node became Ready" {
		t.Errorf("%s: %+v", c, c.FirstAfter)
	}
	got = Changed([]*Report{broken}, both("p"))
	if len(got.Checks) != 2 || got.Checks[1].Why != "no play of one side could be judged" {
		t.Errorf("every play of a side broke: %v", got.Checks)
	}
}

// A report of an earlier version has no outcomes of single checks in repeats.
func TestRepeatsWithoutTheirChecks(t *testing.T) {
	r := repeated("r", "v1", "d", "pffp")
	r.Results[0].CheckRepeats = nil
	c := Changed([]*Report{r}, both("p"))
	if want := (Plays{Passed: 2, Failed: 1, Unknown: 1}); c.Checks[0].Before != want {
		t.Errorf("%+v, want %+v", c.Checks[0].Before, want)
	}
}

func TestWorst(t *testing.T) {
	entry := func(o verdict.Outcome, checks ...string) Entry {
		e := Entry{Result: verdict.Result{Scenario: "s", Outcome: o}}
		for _, c := range checks {
			e.Verdicts = append(e.Verdicts, verdict.Verdict{ID: "drained", Check: c, Outcome: o})
		}
		return e
	}
	broken := entry(verdict.Unknown, "run")
	broken.Verdicts[0].ID = verdict.IDOfRun
	got := Worst([]Entry{broken, entry(verdict.Pass, "a", "a"), entry(verdict.Fail, "a", "b"), entry(verdict.Fail, "a")})
	if want := []verdict.Outcome{verdict.Unknown, verdict.Pass, verdict.Fail, verdict.Fail}; !slices.Equal(got.Repeats, want) || got.Outcome != verdict.Fail || len(got.Verdicts) != 2 {
		t.Errorf("repeats %v, outcome %s", got.Repeats, got.Outcome)
	}
	u, p, f := verdict.Unknown, verdict.Pass, verdict.Fail
	want := map[string][]verdict.Outcome{"a": {u, p, f, f}, "a (2)": {u, p, u, u}, "b": {u, u, f, u}}
	if len(got.CheckRepeats) != len(want) {
		t.Errorf("%v", got.CheckRepeats)
	}
	for name, outcomes := range want {
		if !slices.Equal(got.CheckRepeats[name], outcomes) {
			t.Errorf("%s: %v, want %v", name, got.CheckRepeats[name], outcomes)
		}
	}
}

// A failure of any repeat stays when the run is judged again.
func TestRepeatsAreJudgedAgain(t *testing.T) {
	dir := t.TempDir()
	for n, noisy := range []bool{true, false, true} {
		record(t, filepath.Join(Folder{Path: dir}.Repeat(n+1).Path, savedScenario, "attempt-1"), 1, noisy)
	}
	r, err := Judge(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Results) != 1 {
		t.Fatalf("%d results", len(r.Results))
	}
	e := r.Results[0]
	if want := []verdict.Outcome{verdict.Unknown, verdict.Fail, verdict.Unknown}; !slices.Equal(e.Repeats, want) || e.Outcome != verdict.Fail {
		t.Errorf("repeats %v, outcome %s, want %v", e.Repeats, e.Outcome, want)
	}
	if want := "repeat-2/" + savedScenario + "/attempt-1"; e.History != want {
		t.Errorf("history %s, want %s", e.History, want)
	}
}

// changesOfARecordedRun are those from a run whose checks all passed to a recorded one that fails.
func changesOfARecordedRun(t *testing.T) Changes {
	t.Helper()
	dir := t.TempDir()
	record(t, filepath.Join(dir, savedScenario, "attempt-1"), 1, false)
	after, err := Judge(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := after.folder.Write(after); err != nil {
		t.Fatal(err)
	}
	if after, err = Load(filepath.Join(dir, YAMLFile)); err != nil {
		t.Fatal(err)
	}
	before := *after
	before.Run, before.Results = "before", nil
	for _, e := range after.Results {
		e.History, e.Outcome, e.Verdicts = "", verdict.Pass, slices.Clone(e.Verdicts)
		for i := range e.Verdicts {
			e.Verdicts[i].Outcome, e.Verdicts[i].Got = verdict.Pass, "all was well"
		}
		before.Results = append(before.Results, e)
	}
	c := Changed([]*Report{&before}, []*Report{after})
	if err := c.ReadEvents(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.Count(NotProven) == 0 {
		t.Fatalf("nothing differs: %v", c.Checks)
	}
	return c
}

// A change is shown with what was recorded on both sides.
func TestTheRecordOfAChange(t *testing.T) {
	c := changesOfARecordedRun(t)
	var text strings.Builder
	if err := c.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n  before: pass: all was well\n  after: fail: ", "\n    #", " pod.exited ", "/" + savedScenario + "/attempt-1\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in:\n%s", want, text.String())
		}
	}
}

// What is worse, or may be, must not go green in a CI.
func TestChangesAsJUnit(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string
		want          string
	}{
		"alike":         {"p", "p", `tests="1" failures="0" errors="0"`},
		"may be worse":  {"p", "f", `tests="1" failures="0" errors="1"`},
		"may be better": {"f", "p", `tests="1" failures="0" errors="0"`},
		"worse":         {"pppp", "ffff", `tests="1" failures="1" errors="0"`},
		"better":        {"ffff", "pppp", `tests="1" failures="0" errors="0"`},
		"unknown":       {"p", "u", `tests="1" failures="0" errors="1"`},
		"not played":    {"p", "", `tests="1" failures="0" errors="1"`},
	} {
		var text strings.Builder
		if err := Changed([]*Report{repeated("r-1", "v1", "d", c.before)}, []*Report{repeated("r-2", "v2", "d", c.after)}).writeJUnit(&text); err != nil {
			t.Fatal(err)
		}
		if strings.Count(text.String(), c.want) != 2 { // of the file, and of the suite
			t.Errorf("%s: %q is not in:\n%s", name, c.want, text.String())
		}
	}
}

func TestLatestPlays(t *testing.T) {
	first, second := repeated("r-1", "v1", "d", "u"), repeated("r-2", "v1", "d", "p")
	if got := LatestPlays([]*Report{first, second}); len(got[0].Results) != 0 || len(got[1].Results) != 1 || len(first.Results) != 1 {
		t.Errorf("an unknown play that was played again stays: %v", got[0].Results)
	}
	if got := LatestPlays([]*Report{repeated("r-1", "v1", "d", "f"), second}); len(got[0].Results) != 1 {
		t.Error("a failure is gone because a later play passed")
	}
	second.EndedEarly, second.Results[0].Outcome = "interrupted", verdict.Unknown
	if got := LatestPlays([]*Report{first, second}); len(got[0].Results) != 1 {
		t.Error("an interrupted play replaces an earlier one")
	}
}
