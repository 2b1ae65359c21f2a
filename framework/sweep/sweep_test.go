package sweep

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
)

var update = flag.Bool("update", false, "write the golden files again")

// The values are of a plain sum of binomial terms, by another program.
func TestBoundIsClopperPearsons(t *testing.T) {
	for _, c := range []struct {
		k, n             int
		confidence, want float64
	}{
		{0, 10, 0.95, 0.258865551},
		{1, 10, 0.95, 0.394163302},
		{5, 100, 0.95, 0.102253378},
		{9, 10, 0.99, 0.998995471},
		{3, 1000, 0.9, 0.006668495},
		{0, 26302, 0.95, 0.000113891},
		{0, 0, 0.95, 1},
		{3, 3, 0.95, 1},
	} {
		if got := bound(c.k, c.n, c.confidence); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d of %d at %g: %.9f, want %.9f", c.k, c.n, c.confidence, got, c.want)
		}
	}
}

func TestBoundFallsWithQueriesAndRisesWithLosses(t *testing.T) {
	for _, n := range []int{100, 10_000, 1_000_000} {
		last := 0.0
		for k := 0; k < n; k += max(1, n/50) {
			got := bound(k, n, 0.95)
			if got <= last || got <= float64(k)/float64(n) || got > 1 {
				t.Fatalf("%d of %d: %g after %g", k, n, got, last)
			}
			if k > 0 && got <= bound(k, n*2, 0.95) {
				t.Fatalf("%d of %d: more queries do not narrow it", k, n)
			}
			last = got
		}
	}
}

// None fewer will do, and none more is played.
func TestDrillsForAShare(t *testing.T) {
	for _, share := range []float64{0.05, 0.3} {
		for _, confidence := range []float64{0.5, 0.9, 0.95, 0.99, 0.999} {
			if n := DrillsFor(share, confidence); bound(0, n, confidence) > share || bound(0, n-1, confidence) <= share {
				t.Errorf("%d drills for a share of %g at %g: bound %g, and %g with one fewer", n, share, confidence, bound(0, n, confidence), bound(0, n-1, confidence))
			}
		}
	}
}

const matrix = `apiVersion: spotdrill.dev/v1alpha1
kind: Sweep
name: mine
base: coredns-drained-lameduck-5s
set: fast
mode: fresh
repeats: 2
confidence: 0.95
lossRate: 0.001
lameduck: [0s, 5s, 40s]
readiness: [{period: 1s, failureThreshold: 1}, {period: 10s, failureThreshold: 3}]
`

func parsed(t *testing.T, text string) scenarios.Sweep {
	t.Helper()
	s, err := verdict.Scenarios().ParseSweep("mine.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// played is a store in which drills of cells are found by the start of their names.
func played(t *testing.T, s scenarios.Sweep, plays map[string][]measurement) *store {
	t.Helper()
	results, err := openStore(t.TempDir(), "d")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.Cells() {
		for prefix, of := range plays {
			for i, p := range of {
				if p.Cell, p.Repeat = c.Name(), i+1; strings.HasPrefix(c.Name(), prefix) && c.Impossible == "" {
					if err := results.add(p); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	return results
}

func clean(asked int) measurement {
	return measurement{Outcome: verdict.Pass, Fresh: count{Asked: asked, Conntrack: 2}, Fixed: count{Asked: asked / 2, Lost: 3, Window: 12}}
}

func lossy(lost int, window float64) measurement {
	return measurement{Outcome: verdict.Fail, Fresh: count{Asked: 26000, Lost: lost, Window: window}, Fixed: count{Asked: 13000, Lost: 2 * lost, Window: window, Conntrack: 5}}
}

// Unknown is never safe: not one drill too few, not one that was not judged, not
// one query too few.
func TestOnlyWhatIsKnownIsSafe(t *testing.T) {
	unjudged := clean(26000)
	unjudged.Outcome, unjudged.Why = verdict.Unknown, "control: 900 of 5000 lost"
	contradictory := clean(26000)
	contradictory.Fresh.Lost = 1
	const cell = "lameduck-5s-readiness-1sx1"
	for name, c := range map[string]struct {
		plays []measurement
		want  State
		why   string
	}{
		"every repeat without a loss":         {[]measurement{clean(26000), clean(26000)}, Safe, ""},
		"one repeat":                          {[]measurement{clean(26000)}, Unknown, "not drilled"},
		"none":                                {nil, Unknown, "not drilled"},
		"one repeat that was not judged":      {[]measurement{clean(26000), unjudged}, Unknown, "control: 900 of 5000 lost"},
		"one query lost":                      {[]measurement{clean(26000), lossy(1, 1)}, Loses, ""},
		"lost, the other not judged":          {[]measurement{unjudged, lossy(1, 1)}, Loses, ""},
		"too few queries for the rate":        {[]measurement{clean(1400), clean(1400)}, Unknown, "nothing lost, but of too few queries for the required loss rate: raise repeats"},
		"just enough of them":                 {[]measurement{clean(1500), clean(1500)}, Safe, ""},
		"no query at all":                     {[]measurement{clean(0), clean(0)}, Unknown, "the drills contradict their counts"},
		"a pass that lost":                    {[]measurement{clean(26000), contradictory}, Unknown, "the drills contradict their counts"},
		"a skipped drill":                     {[]measurement{{Outcome: verdict.Skipped}, clean(26000)}, Unknown, "not drilled"},
		"an outcome that nobody ever defined": {[]measurement{{Outcome: "fine"}, clean(26000)}, Unknown, "not drilled"},
	} {
		s := parsed(t, matrix)
		table := newTable(s, played(t, s, map[string][]measurement{cell: c.plays}))
		i := slices.IndexFunc(table.Cells, func(r Result) bool { return strings.HasPrefix(r.Name(), cell) })
		if got := table.Cells[i]; got.State != c.want || got.Why != c.why {
			t.Errorf("%s: %s (%s), want %s (%s)", name, got.State, got.Why, c.want, c.why)
		}
		if _, ok := table.Smallest(); ok != (c.want == Safe) {
			t.Errorf("%s: smallest safe setting found: %v", name, ok)
		}
	}
}

func sample(t *testing.T) Table {
	s := parsed(t, matrix+"exceptConntrack: true\n")
	return newTable(s, played(t, s, map[string][]measurement{
		"lameduck-0s-readiness-1sx1":  {lossy(40, 100), lossy(60, 200)},
		"lameduck-0s-readiness-10sx3": {lossy(900, 1300), lossy(700, 1100)},
		"lameduck-5s-readiness-1sx1":  {clean(26000), clean(26000)},
		"lameduck-5s-readiness-10sx3": {clean(26000), lossy(30, 440)},
	}))
}

func TestSmallestSafeSetting(t *testing.T) {
	table := sample(t)
	got, ok := table.Smallest()
	if !ok || got.Name() != "lameduck-5s-readiness-1sx1-grace-30s-2-on-spot" {
		t.Errorf("%s, %v", got.Name(), ok)
	}
	if first := table.Cells[0].Counted; first.LostMedian != 800 || first.LostWorst != 900 || first.WindowMedian != 1200 || first.WindowMax != 1300 || first.Asked != 52000 || first.Lost != 1600 {
		t.Errorf("%+v", first)
	}
	if got.DrillBound < 0.77 || got.DrillBound > 0.78 { // 1 - sqrt(0.05): two drills prove little
		t.Errorf("of 2 drills at most %g lose", got.DrillBound)
	}
}

func TestModesCountTheirOwnQueries(t *testing.T) {
	p := measurement{Fresh: count{10, 1, 5, 3}, Fixed: count{20, 2, 7, 4}}
	for mode, want := range map[string]count{"fresh": p.Fresh, "fixed": p.Fixed, "all": {30, 3, 7, 7}} {
		if got := p.counted(mode); got != want {
			t.Errorf("%s: %+v, want %+v", mode, got, want)
		}
	}
}

// What is not counted is reported, also if it is nothing.
func TestWhatConntrackLostIsTold(t *testing.T) {
	for text, want := range map[string][2]string{
		matrix + "exceptConntrack: true\n": {" of 26000        4   ", "in 2 drills, without 4 that connection tracking itself lost; so"},
		matrix:                             {" of 26000        counted   ", "in 2 drills; so"},
	} {
		s := parsed(t, text)
		var got strings.Builder
		if err := newTable(s, played(t, s, map[string][]measurement{"lameduck-5s-readiness-1sx1": {clean(26000), clean(26000)}})).WriteText(&got); err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(got.String(), part) {
				t.Errorf("exceptConntrack %t: %q is not in:\n%s", s.ExceptConntrack, part, got.String())
			}
		}
	}
}

// Whoever reads the cells by a program finds their names, and no drill's bound is 1.
func TestCellsAsJSON(t *testing.T) {
	text, err := json.Marshal(sample(t).Cells)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`[{"lameduckSeconds":0,"readinessPeriodSeconds":10,"failureThreshold":3,"gracePeriodSeconds":30,"replicas":2,"placement":"spot","state":"loses","drills":2,"drillsThatLost":2,"drillBound":1,` +
			`"counted":{"asked":52000,"lost":1600,"lostConntrack":0,"lostMedian":800,"lostWorst":900,"windowMedianMs":1200,"windowWorstMs":1300,"lossRateBound":0.032`,
		`"state":"impossible","why":"the grace period 30s ends before lameduck 40s does","drills":0,"drillsThatLost":0,"drillBound":1,`,
	} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s is not in:\n%s", part, text)
		}
	}
}

func TestGolden(t *testing.T) {
	dir := t.TempDir()
	table := sample(t)
	var text strings.Builder
	if err := table.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "table.txt"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := table.Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"table.txt", CSVFile, mapFile, PageFile} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil || string(got) != string(want) {
			t.Errorf("%s is not as in %s (-update writes it again): %v\n%s", name, golden, err, got)
		}
	}
}

func TestResultsOutliveTheirRun(t *testing.T) {
	s := parsed(t, matrix)
	o := Options{Sweep: s, Out: t.TempDir(), Handler: handler.Description{}, System: system.Options{ProxyMode: "iptables"}}
	drills := func() int {
		t.Helper()
		results, err := o.results()
		if err != nil {
			t.Fatal(err)
		}
		pending, err := o.pending(results)
		if err != nil {
			t.Fatal(err)
		}
		return len(pending)
	}
	if got := drills(); got != 8 { // 4 cells of 6 are possible
		t.Fatalf("%d drills to begin with, want 8", got)
	}
	results, err := o.results()
	if err != nil {
		t.Fatal(err)
	}
	first := clean(26000)
	first.Cell, first.Repeat = s.Cells()[0].Name(), 1
	noisy := first
	noisy.Repeat, noisy.Outcome = 2, verdict.Unknown
	for _, p := range []measurement{first, noisy} {
		if err := results.add(p); err != nil {
			t.Fatal(err)
		}
	}
	if got := drills(); got != 7 {
		t.Errorf("%d drills are left, want 7: what was not judged is drilled again", got)
	}

	// A run that was killed while it wrote.
	f, err := os.OpenFile(results.file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"matrix":"sha`); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	if got := drills(); got != 7 {
		t.Errorf("%d drills are left after a line that was cut off, want 7", got)
	}
	if text, err := os.ReadFile(results.file); err != nil || strings.Count(string(text), "\n") != 2 || !strings.HasSuffix(string(text), "}\n") {
		t.Errorf("the line that was cut off is still there: %v\n%s", err, text)
	}

	o.Sweep = parsed(t, strings.Replace(matrix, "repeats: 2", "repeats: 3", 1))
	if got := drills(); got != 11 {
		t.Errorf("%d drills are left with another repeat, want 11", got)
	}
	for name, change := range map[string]func(*Options){
		"another base":            func(o *Options) { o.Sweep = parsed(t, strings.Replace(matrix, "duck-5s", "duck-0s", 1)) },
		"another mode":            func(o *Options) { o.Sweep = parsed(t, strings.Replace(matrix, "fresh", "all", 1)) },
		"another handler":         func(o *Options) { o.Handler.Version = "v2" },
		"another kube-proxy mode": func(o *Options) { o.System.ProxyMode = "nftables" },
	} {
		other := o
		change(&other)
		if _, err := other.results(); err == nil || !strings.Contains(err.Error(), "set another --out") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Its lines lack what connection tracking lost.
	older := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %t %q %q", s.BaseDigest(), s.Set, s.Mode, s.ExceptConntrack, " ", "iptables"))
	if err := os.WriteFile(results.file, fmt.Appendf(nil, "{\"matrix\": \"sha256:%x\"}\n", older), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := o.results(); err == nil || !strings.Contains(err.Error(), "or of an older spotdrill") {
		t.Errorf("an older spotdrill's: %v", err)
	}
	if err := os.WriteFile(results.file, []byte("{\"cells\": 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := o.results(); err == nil || !strings.Contains(err.Error(), "results.jsonl:1: ") || !strings.Contains(err.Error(), `unknown field "cells"`) {
		t.Errorf("a file of something else: %v", err)
	}
}

// A drill speaks of its settings only where nothing else went wrong.
func TestWhatADrillSays(t *testing.T) {
	entry := func(outcome verdict.Outcome, verdicts ...verdict.Verdict) reports.Entry {
		return reports.Entry{Attempts: 2, History: "cell/attempt-2", Result: verdict.Result{
			Outcome: outcome, Verdicts: verdicts, DNS: &loss.Measurement{Fresh: loss.Stream{Asked: 100, Lost: 7}},
		}}
	}
	lost := verdict.Verdict{ID: verdict.IDOfDNSLost, Check: "dns lost (fresh)", Outcome: verdict.Fail, Got: "7 of 100 lost"}
	none := verdict.Verdict{ID: verdict.IDOfDNSLost, Check: "dns lost (fresh)", Outcome: verdict.Pass}
	uncounted := verdict.Verdict{ID: verdict.IDOfDNSLost, Check: "dns lost (fresh)", Outcome: verdict.Pass, Counted: &loss.Measurement{Fresh: loss.Stream{Asked: 93}}}
	noise := verdict.Verdict{ID: verdict.IDOfDNSLost, Check: "dns lost (fresh)", Outcome: verdict.Unknown, Got: "the control was lost"}
	broken := verdict.Verdict{Check: "untouched", Outcome: verdict.Fail, Got: "worker was cordoned"}
	for name, c := range map[string]struct {
		entry reports.Entry
		want  verdict.Outcome
		why   string
		lost  int
		left  int // out of the count
	}{
		"nothing lost":                    {entry(verdict.Pass, none), verdict.Pass, "", 7, 0},
		"nothing that counts":             {entry(verdict.Pass, uncounted), verdict.Pass, "", 0, 7},
		"something lost":                  {entry(verdict.Fail, lost), verdict.Fail, "7 of 100 lost", 7, 0},
		"lost, and more is wrong":         {entry(verdict.Fail, broken, lost), verdict.Fail, "7 of 100 lost", 7, 0},
		"nothing lost, but more is wrong": {entry(verdict.Fail, none, broken), verdict.Unknown, "untouched: worker was cordoned", 7, 0},
		"noise":                           {entry(verdict.Unknown, noise), verdict.Unknown, "dns lost (fresh): the control was lost", 7, 0},
		"skipped":                         {entry(verdict.Skipped), verdict.Unknown, "", 7, 0},
	} {
		p := newMeasurement(trial{cell: scenarios.Cell{}, repeat: 1}, c.entry, "20260102-150405")
		if p.Outcome != c.want || p.Why != c.why || p.Fresh.Lost != c.lost || p.Fresh.Conntrack != c.left || p.History != "runs/20260102-150405/cell/attempt-2" {
			t.Errorf("%s: %+v, want %s (%s)", name, p, c.want, c.why)
		}
	}
}
