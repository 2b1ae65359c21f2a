package reports

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// night is a report of one scenario that was drained after that many seconds.
func night(run string, drained float64) *Report {
	r := New(Folder{Run: run}, Handler{Name: "builtin"}, scenarios.Full, map[string]string{"cores": "4", "kube-proxy": "iptables"})
	r.Add(Entry{Result: verdict.Result{
		Scenario: "spot-notice-drains-node", Profile: "SPOT", Digest: "sha256:1", Outcome: verdict.Pass,
		Verdicts: []verdict.Verdict{{Check: "drained victim", Outcome: verdict.Pass, Numbers: map[string]float64{"drained_seconds": drained}}},
	}})
	return r
}

// nights are n reports at 10.0 s, 10.1 s, 10.2 s, …
func nights(n int) []*Report {
	var out []*Report
	for i := range n {
		out = append(out, night(fmt.Sprint("night-", i), 10+float64(i)/10))
	}
	return out
}

func TestDrift(t *testing.T) {
	// Of 21 nights at 10 s to 12 s the 95th percentile is 11.9 s, the 99th 11.98 s. A
	// tenth of that is a normal difference between nights.
	for name, c := range map[string]struct {
		earlier []*Report
		now     float64
		want    DriftState
	}{
		"as ever":                       {nights(21), 11, Steady},
		"the slowest so far":            {nights(21), 12.5, Steady},
		"beyond the 95th":               {nights(21), 13.1, Warned},
		"beyond the 99th":               {nights(21), 13.2, Drifted},
		"quicker than ever":             {nights(21), 1, Steady},
		"too few nights":                {nights(19), 100, TooFew},
		"no night at all":               {nil, 100, TooFew},
		"the run itself is no evidence": {append(nights(19), night("now", 100)), 100, TooFew},
	} {
		d := FindDrift(night("now", c.now), c.earlier, 20)
		if len(d.Figures) != 1 || d.Figures[0].State != c.want {
			t.Errorf("%s: %+v, want %s", name, d.Figures, c.want)
		}
	}
}

// A night with another handler, scenario or machine is not compared.
func TestDriftComparesLikeWithLike(t *testing.T) {
	for name, change := range map[string]func(*Report){
		"another handler":      func(r *Report) { r.Handler.Name = "nth" },
		"another set":          func(r *Report) { r.Set = scenarios.Fast },
		"another machine":      func(r *Report) { r.Environment["cores"] = "2" },
		"another proxy mode":   func(r *Report) { r.Environment["kube-proxy"] = "nftables" },
		"another scenario":     func(r *Report) { r.Results[0].Digest = "sha256:2" },
		"a drill that failed":  func(r *Report) { r.Results[0].Outcome = verdict.Fail },
		"another figure of it": func(r *Report) { r.Results[0].Verdicts[0].Numbers = map[string]float64{"marked_seconds": 1} },
	} {
		earlier := nights(20)
		change(earlier[7])
		if d := FindDrift(night("now", 11), earlier, 20); d.Figures[0].Nights != 19 || d.Figures[0].State != TooFew {
			t.Errorf("%s counts: %+v", name, d.Figures[0])
		}
	}
	now := night("now", 11)
	now.Results[0].Outcome = verdict.Unknown
	if d := FindDrift(now, nights(20), 20); len(d.Figures) != 0 {
		t.Errorf("a figure of what did not pass is compared: %+v", d.Figures)
	}
}

// If no earlier night lost a query, one lost query is no drift.
func TestDriftLeavesRoomForLateQueries(t *testing.T) {
	none := make([]float64, 30)
	for value, want := range map[float64]DriftState{0: Steady, 1: Steady, 100: Steady, 101: Drifted} {
		if got := (Figure{"window_fresh_max_ms", value}).against("a", none, 20).State; got != want {
			t.Errorf("a window of %g ms: %s, want %s", value, got, want)
		}
	}
}

func TestPercentile(t *testing.T) {
	values := []float64{1, 2, 3, 4, 5}
	for p, want := range map[float64]float64{0: 1, 50: 3, 95: 4.8, 99: 4.96, 100: 5} {
		if got := percentile(values, p); got < want-1e-9 || got > want+1e-9 {
			t.Errorf("percentile %g is %g, want %g", p, got, want)
		}
	}
	if got := percentile([]float64{7}, 99); got != 7 {
		t.Errorf("of one value: %g", got)
	}
}

func TestDriftIsReportedWorstFirst(t *testing.T) {
	d := Drift{Run: "now", AtLeast: 20, Figures: []DriftFigure{
		{Scenario: "a", Figure: Figure{"drained_seconds", 3}, State: Steady, Nights: 20, Warn: 3, Fail: 3},
		{Scenario: "b", Figure: Figure{"drained_seconds", 13.1}, State: Warned, Nights: 21, Warn: 11.9, Fail: 11.98},
		{Scenario: "c", Figure: Figure{"window_fresh_max_ms", 950}, State: Drifted, Nights: 30, Warn: 300, Fail: 310},
		{Scenario: "d", Figure: Figure{"drained_seconds", 3}, State: TooFew, Nights: 2},
	}}
	var b bytes.Buffer
	if err := d.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "drift.txt", b.Bytes())
}

func TestLoadAllFindsReportsInFolders(t *testing.T) {
	root := t.TempDir()
	for _, run := range []string{"1", "2"} {
		dir := filepath.Join(root, "nights", run)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := writeFile(filepath.Join(dir, YAMLFile), night(run, 10).WriteYAML); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "scenario.yaml"), []byte("kind: Scenario\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	single := filepath.Join(root, "single.yaml")
	if err := writeFile(single, night("3", 10).WriteYAML); err != nil {
		t.Fatal(err)
	}
	loaded, err := LoadAll(t.Context(), []string{filepath.Join(root, "nights"), single})
	if err != nil || len(loaded) != 3 || loaded[2].Run != "3" {
		t.Errorf("%d reports (%v)", len(loaded), err)
	}
	if _, err := LoadAll(t.Context(), []string{filepath.Join(root, "none")}); err == nil || !strings.Contains(err.Error(), "name a report, or a folder of runs") {
		t.Errorf("of no folder: %v", err)
	}
}
