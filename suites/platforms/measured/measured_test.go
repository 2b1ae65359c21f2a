package measured

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
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
			{Fresh: ports(1000, 3, time.Second), Fixed: ports(900, 0, 0)}, {Fresh: ports(1100, 9, 2*time.Second), Fixed: ports(900, 0, 0)}, {Fresh: ports(1000, 3, 2500*time.Millisecond), Fixed: ports(901, 0, 0)},
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
	outdated.Settings, outdated.Digest, outdated.CoreDNS, outdated.Unjudged = Proposed, "sha256:0", "lameduck 12s", 2
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
	bound := c
	bound.Plays = slices.Clone(c.Plays)
	bound.Plays[2].AtMost = true
	if most, err := Tables([]string{"k3s"}, Record{Cells: []Cell{bound}}); err != nil || !strings.Contains(most, "| at most 9 of 1,100, 2.5 s (3 to 9, 1.0 s to 2.5 s) | 0 of 900, 0 s |") {
		t.Errorf("with a play that could not be judged: %v, %s", err, most)
	}
	const old = ", before the preset or the scenario changed"
	for _, want := range []string{
		"| [k3s](#k3s) | not measured | 9, 2.5 s | not measured |",
		"| [rke2](#rke2) | not measured | not measured |",
		"| `kubectl drain` | 9 of 1,100, 2.5 s (3 to 9, 1.0 s to 2.5 s) | 0 of 900, 0 s | 9 of 1,100, 2.5 s (3 to 9, 1.0 s to 2.5 s)" + old + " | 0 of 900, 0 s" + old + " |",
		"| rolling restart | not measured | not measured | not measured | not measured | not measured |",
		"\nProposed: lameduck 12s.\n", "\nMeasured: 2026-11-28, here.\n",
		"\nPlays that could not be judged and were repeated: `kubectl drain`, as proposed, 2.\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// What brings a way to zero is named with what it was; and that nothing did, or nobody knows, is not hidden.
func TestTheTableNamesWhatBringsItToZero(t *testing.T) {
	zero := func(c Cell) Cell {
		c.Plays = []Play{{Fresh: ports(9, 0, 0), Fixed: ports(9, 0, 0)}, {Fresh: ports(9, 0, 0), Fixed: ports(9, 0, 0)}, {Fresh: ports(9, 0, 0), Fixed: ports(9, 0, 0)}}
		return c
	}
	shipped := sample(t)
	p, err := scenarios.PlatformNamed("k3s")
	if err != nil {
		t.Fatal(err)
	}
	base, err := Base(p, Ways()[1])
	if err != nil {
		t.Fatal(err)
	}
	shipped.CoreDNS = base.CoreDNS.String()
	proposed := shipped
	proposed.Settings, proposed.CoreDNS = Proposed, strings.NewReplacer("lameduck 0s", "lameduck 12s", "replicas 1", "replicas 2").Replace(shipped.CoreDNS)
	if proposed.CoreDNS == shipped.CoreDNS {
		t.Fatalf("k3s has %s", shipped.CoreDNS)
	}
	const changed = "lameduck 12s, replicas 2 in place of lameduck 0s, replicas 1"
	same, outdated := proposed, zero(proposed)
	same.CoreDNS, outdated.Digest = shipped.CoreDNS, "sha256:0"
	fixedOnly := zero(proposed)
	fixedOnly.Plays[2].Fixed.Lost = 1
	for name, of := range map[string]struct {
		cells []Cell
		want  string
	}{
		"nothing was measured":                   {nil, "not measured"},
		"only as shipped":                        {[]Cell{shipped}, "not measured"},
		"zero as shipped":                        {[]Cell{zero(shipped), proposed}, "nothing is lost as shipped"},
		"zero as proposed":                       {[]Cell{shipped, zero(proposed)}, changed},
		"zero as proposed, of an earlier preset": {[]Cell{shipped, outdated}, "not measured"},
		"less as proposed":                       {[]Cell{shipped, proposed}, "nothing that was tried: up to 9 lost with " + changed},
		"lost on one kind of ports":              {[]Cell{shipped, fixedOnly}, "nothing that was tried: up to 1 lost with " + changed},
		"nothing is proposed":                    {[]Cell{shipped, same}, "nothing that was tried: no other setting is proposed"},
	} {
		if got := (Record{of.cells}).remedy(p, Ways()[1], base); got != of.want {
			t.Errorf("%s: %q, want %q", name, got, of.want)
		}
	}
	for _, c := range [][3]string{
		{"a, b", "a, b", ""}, {"a, b", "a, b, c", "c"}, {"a, b", "a", "without b"}, {"a, b", "c, b", "c in place of a"},
	} {
		if got := changes(c[0], c[1]); got != c[2] {
			t.Errorf("from %s to %s: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

func TestWhatIsToBeMeasured(t *testing.T) {
	none := Play{Fresh: ports(9, 0, 0), Fixed: ports(9, 0, 0)}
	for name, c := range map[string]struct {
		platform, way string
		lost          *int // as shipped; nil if that was not measured
		settings      Settings
		want          bool // it is settled
		remedy        string
	}{
		"not measured as shipped":         {"k3s", "restart", nil, Shipped, false, unmeasured},
		"measured as shipped":             {"k3s", "restart", new(3), Shipped, true, unmeasured},
		"some are lost as shipped":        {"k3s", "restart", new(3), Proposed, false, unmeasured},
		"nothing is lost as shipped":      {"k3s", "restart", new(0), Proposed, true, "nothing is lost as shipped"},
		"a power-off as shipped":          {"kops", powerOff, nil, Shipped, false, "no setting of CoreDNS: a handler that drains the node"},
		"a power-off":                     {"kops", powerOff, new(3), Proposed, true, "no setting of CoreDNS: a handler that drains the node"},
		"a shutdown that is graceful":     {"kops", shutDown, new(3), Proposed, false, unmeasured},
		"a shutdown that is not graceful": {"k3s", shutDown, new(3), Proposed, true, "no setting of CoreDNS: a handler that drains the node"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := scenarios.PlatformNamed(c.platform)
			if err != nil {
				t.Fatal(err)
			}
			w := Ways()[slices.IndexFunc(Ways(), func(w Way) bool { return w.Name == c.way })]
			base, err := Base(p, w)
			if err != nil {
				t.Fatal(err)
			}
			var r Record
			if c.lost != nil {
				lossy := none
				lossy.Fixed.Lost = *c.lost
				r.Cells = []Cell{{Platform: c.platform, Way: c.way, Settings: Shipped, Digest: base.Digest(), Plays: []Play{none, lossy, none}}}
			}
			if got := r.Settled(p, w, c.settings, base); got != c.want {
				t.Errorf("settled %t, want %t", got, c.want)
			}
			if got := r.remedy(p, w, base); got != c.remedy {
				t.Errorf("remedy %q, want %q", got, c.remedy)
			}
		})
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
	noise := result(verdict.IDOfDNSLost, verdict.Unknown, nil)
	noise.Verdicts[0].Noise = true
	if p, err := PlayOf(noise); err == nil || !p.AtMost || p.Fresh != ports(100, 2, 1500*time.Millisecond) {
		t.Errorf("of what may be noise: %+v, %v", p, err)
	}
	late := result(verdict.IDOfDNSLost, verdict.Unknown, nil)
	late.Verdicts[0].Noise, late.Verdicts[0].Premise = true, "prober"
	broken := result(verdict.IDOfHarness, verdict.Fail, nil)
	broken.Verdicts = append(broken.Verdicts, noise.Verdicts...)
	for _, r := range []verdict.Result{
		late, broken, result(verdict.IDOfDNSLost, verdict.Unknown, nil), result(verdict.IDOfHarness, verdict.Fail, nil), result(verdict.IDOfRun, verdict.Unknown, nil), {},
	} {
		if p, err := PlayOf(r); err == nil || p != (Play{}) {
			t.Errorf("%+v has the figures %+v", r, p)
		}
	}
}
