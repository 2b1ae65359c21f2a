package reports

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/verdict"
)

// nightly is the sample report as that of another night, in a folder with a page.
func nightly(t *testing.T, root, run string, started time.Time, outcome verdict.Outcome) *Report {
	t.Helper()
	r := sampleReport()
	r.Run, r.Started = run, started
	r.folder.Path = filepath.Join(root, run)
	r.Results[0].Outcome, r.Results[0].Digest = outcome, "one"
	if err := os.MkdirAll(r.folder.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := r.WritePage(); err != nil {
		t.Fatal(err)
	}
	return r
}

func text(t *testing.T, name string, write func(*bytes.Buffer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	keep(t, name, b.Bytes())
	return b.String()
}

func scenarioRow(t *testing.T, page, scenario string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, `<th scope="row">`+scenario+" ")
	if !ok {
		t.Fatalf("no row of %s", scenario)
	}
	row, _, _ := strings.Cut(rest, "</tr>")
	return row
}

func TestTheComparisonsPage(t *testing.T) {
	root := t.TempDir()
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	a, b := nightly(t, root, "a", at, verdict.Pass), nightly(t, root, "b", at.Add(time.Hour), verdict.Fail)
	b.folder.Path = filepath.Join(root, "moved") // without a page
	page := text(t, "compared-page", func(w *bytes.Buffer) error {
		return Compare([]*Report{a, b}).writeHTML(w, []*Report{a, b}, root)
	})
	row := scenarioRow(t, page, "coredns-drained-lameduck-0s")
	for _, part := range []string{`href="a/report.html#coredns-drained-lameduck-0s">pass</a>`, "window max 1300.250 ms", `<span class="word">fail</span>`} {
		if !strings.Contains(row, part) {
			t.Errorf("the row does not show %q: %s", part, row)
		}
	}
	for scenario, state := range map[string]string{"coredns-drained-lameduck-0s": changed, "spot-notice-drains-node": unchanged, "state-stopping-drains-node": changed} {
		head, _, _ := strings.Cut(page, `<th scope="row">`+scenario)
		if tag := head[strings.LastIndex(head, "<tr"):]; !strings.Contains(tag, `data-outcome="`+state+`"`) {
			t.Errorf("%s: %s, want %s", scenario, tag, state)
		}
	}
	if !strings.Contains(scenarioRow(t, page, "spot-notice-drains-node"), "marked victim: spotdrill-worker3 marked after 8.345s") {
		t.Error("the page does not show why a drill failed")
	}
}

func TestTheNightsPage(t *testing.T) {
	root := t.TempDir()
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	now := nightly(t, root, "now", at.Add(100*time.Hour), verdict.Pass)
	var earlier []*Report
	for i := range nightsShown + 2 {
		outcome := verdict.Pass
		if i == 5 {
			outcome = verdict.Fail
		}
		earlier = append([]*Report{nightly(t, root, fmt.Sprintf("night-%02d", i), at.Add(time.Duration(i)*time.Hour), outcome)}, earlier...)
	}
	other := nightly(t, root, "other", at.Add(50*time.Hour), verdict.Fail)
	other.Handler.Name = "karpenter"
	earlier[0].Results[0].Digest = "another"
	earlier[1].Results = earlier[1].Results[1:]
	earlier = append(earlier, other, now)
	drift := FindDrift(now, earlier, 3)
	page := text(t, "nights-page", func(w *bytes.Buffer) error { return drift.writeHTML(w, now, earlier, root) })
	row := scenarioRow(t, page, "coredns-drained-lameduck-0s")
	if n := strings.Count(row, `class="cell`); n != nightsShown+1 {
		t.Errorf("%d marks, want %d and the newest", n, nightsShown)
	}
	for _, part := range []string{
		`<a class="cell fail" href="night-05/report.html#coredns-drained-lameduck-0s" title="run night-05: fail, window max 1300.250 ms`,
		"another text of the scenario", "run night-30: not played", "window max 1300.250 ms: steady, p95 1300.250 ms",
	} {
		if !strings.Contains(row, part) {
			t.Errorf("the row does not show %q: %s", part, row)
		}
	}
	for _, part := range []string{"night-00", "night-01", "run other"} {
		if strings.Contains(page, part) {
			t.Errorf("the page shows %s", part)
		}
	}
	if first, last := strings.Index(row, "night-02"), strings.Index(row, "run now"); first < 0 || last < first {
		t.Error("the newest is not last")
	}
}

// A month of nights of the full set is no larger than the page of one of them may be.
func TestTheNightsPageOfTheFullSetIsSmall(t *testing.T) {
	now := publishedReports(t)[0]
	earlier := make([]*Report, nightsShown)
	for i := range earlier {
		night := *now
		night.Run = fmt.Sprintf("20260102-1504%02d", i)
		earlier[i] = &night
	}
	page := text(t, "nights-full-page", func(w *bytes.Buffer) error {
		return FindDrift(now, earlier, 20).writeHTML(w, now, earlier, t.TempDir())
	})
	t.Logf("%d scenarios, %d nights: %d bytes", len(now.Results), len(earlier), len(page))
	if len(page) > 3_000_000 {
		t.Errorf("%d bytes", len(page))
	}
}

func TestHostileNamesStayTextInAComparisonPage(t *testing.T) {
	r := hostileReport(t)
	matrix := text(t, "compared-hostile-page", func(w *bytes.Buffer) error {
		return Compare([]*Report{r, r}).writeHTML(w, []*Report{r, r}, t.TempDir())
	})
	nights := text(t, "", func(w *bytes.Buffer) error { return FindDrift(r, nil, 1).writeHTML(w, r, []*Report{r}, t.TempDir()) })
	staysText(t, matrix)
	staysText(t, nights)
}
