package measured

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

var update = flag.Bool("update", false, "write the tables of docs/platforms.md")

const root = "../../.."

func TestThePageIsTheRecord(t *testing.T) {
	page := filepath.Join(root, "docs", "platforms.md")
	r, err := Read(filepath.Join(root, "suites", "platforms", "record.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := WritePage(page, scenarios.Platforms(), r); err != nil {
			t.Fatal(err)
		}
	}
	is, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := Tables(scenarios.Platforms(), r)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Insert(string(is), tables)
	if err != nil {
		t.Fatal(err)
	}
	if string(is) != want {
		t.Error("docs/platforms.md does not have the tables of the record: go test ./suites/platforms/measured -update")
	}
}

func ports(asked, lost int, window time.Duration) Ports {
	return Ports{asked, lost, strict.Duration(window)}
}

func sample(t *testing.T) Cell {
	t.Helper()
	p, err := scenarios.PlatformNamed("k3s")
	if err != nil {
		t.Fatal(err)
	}
	way := Ways()[1]
	base, err := Base(p, way)
	if err != nil {
		t.Fatal(err)
	}
	return Cell{
		Platform: "k3s", Way: way.Name, Settings: Shipped, Date: "2026-11-28", Digest: base.Digest(), CoreDNS: "lameduck 0s",
		Plays: []Play{
			{ports(1000, 3, time.Second), ports(900, 0, 0)}, {ports(1100, 9, 2*time.Second), ports(900, 0, 0)}, {ports(1000, 3, 2500*time.Millisecond), ports(901, 0, 0)},
		},
		On: "here",
	}
}

// The worst play counts. What was not measured has no figure, and what is outdated is named.
func TestTheTableShowsTheWorstPlayAndTheRange(t *testing.T) {
	file := filepath.Join(t.TempDir(), "record.yaml")
	c := sample(t)
	r, err := Record{}.Write(file, c)
	if err != nil {
		t.Fatal(err)
	}
	outdated := c
	outdated.Settings, outdated.Digest, outdated.CoreDNS = Proposed, "sha256:0", "lameduck 12s"
	if _, err = r.Write(file, outdated); err != nil {
		t.Fatal(err)
	}
	if r, err = Read(file); err != nil || len(r.Cells) != 2 {
		t.Fatalf("%v, %v", r, err)
	}
	text, err := Tables([]string{"k3s", "rke2"}, r)
	if err != nil {
		t.Fatal(err)
	}
	const old = ", before the preset or the scenario changed"
	for _, want := range []string{
		"| [k3s](#k3s) | not measured | 9, 2.5 s | not measured |",
		"| [rke2](#rke2) | not measured | not measured |",
		"| `kubectl drain` | 9 of 1100, 2.5 s (3 to 9, 1.0 s to 2.5 s) | 0 of 900, 0 s | 9 of 1100, 2.5 s (3 to 9, 1.0 s to 2.5 s)" + old + " | 0 of 900, 0 s" + old + " |",
		"| rolling restart | not measured | not measured | not measured | not measured |",
		"\nProposed: lameduck 12s.\n", "\nMeasured: 2026-11-28, here.\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func TestInvalidRecords(t *testing.T) {
	for name, change := range map[string]func(*Cell){
		"two plays":                  func(c *Cell) { c.Plays = c.Plays[:2] },
		"more lost than asked":       func(c *Cell) { c.Plays[0].Fresh.Lost = 1001 },
		"nothing asked":              func(c *Cell) { c.Plays[0].Fixed.Asked = 0 },
		"a way that is none":         func(c *Cell) { c.Way = "luck" },
		"settings that are nobody's": func(c *Cell) { c.Settings = "mine" },
		"no day":                     func(c *Cell) { c.Date = "today" },
	} {
		t.Run(name, func(t *testing.T) {
			c := sample(t)
			change(&c)
			file := filepath.Join(t.TempDir(), "record.yaml")
			if _, err := (Record{}).Write(file, c); err == nil {
				t.Error("it was written")
			}
		})
	}
}

func TestOnlyAPlayThatIsJudgedHasFigures(t *testing.T) {
	numbers := map[string]float64{"asked_fresh": 100, "lost_fresh": 2, "window_fresh_max_ms": 1500.4, "asked_fixed": 50, "lost_fixed": 0, "window_fixed_max_ms": 0}
	result := func(id verdict.ID, o verdict.Outcome, counted *loss.Measurement) verdict.Result {
		return verdict.Result{Verdicts: []verdict.Verdict{{ID: id, Check: string(id), Outcome: o, Got: "g", Numbers: numbers, Counted: counted}}}
	}
	for _, o := range []verdict.Outcome{verdict.Pass, verdict.Fail} {
		if p, err := PlayOf(result(verdict.IDOfDNSLost, o, nil)); err != nil || p.Fresh != ports(100, 2, 1500*time.Millisecond) || p.Fixed != ports(50, 0, 0) {
			t.Errorf("%s: %+v, %v", o, p, err)
		}
	}
	for _, r := range []verdict.Result{
		result(verdict.IDOfDNSLost, verdict.Unknown, nil), result(verdict.IDOfHarness, verdict.Fail, nil), result(verdict.IDOfRun, verdict.Unknown, nil), {},
	} {
		if p, err := PlayOf(r); err == nil {
			t.Errorf("%+v has the figures %+v", r, p)
		}
	}
}
