package trackrecord

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/kind"
)

var update = flag.Bool("update", false, "write the table of docs/track-record.md")

const root = "../../.."

func cases(t *testing.T) []Case {
	t.Helper()
	all, err := Load(root, filepath.Join(root, "suites", "reproduce"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestEveryCaseIsPlayable(t *testing.T) {
	for _, c := range cases(t) {
		for _, version := range []string{c.Broken, c.Fixed} {
			if version == "" {
				continue
			}
			under, err := c.Handler(version)
			if err != nil {
				t.Fatal(err)
			}
			release, inCluster := c.Release(version)
			switch {
			case inCluster && under.Name != "builtin":
				t.Errorf("%s is played with %s", c.Issue, under.Name)
			case !inCluster && under.Version != version:
				t.Errorf("%s is played with %s %s, want %s", c.Issue, under.Name, under.Version, version)
			}
			if release.Public() == "" {
				t.Errorf("%s has no public image", release)
			}
			if d := c.Drill; d.Feature != "" && !under.Claims(d.Feature) {
				t.Errorf("%s: %s does not claim %s, so %s would be skipped", c.Issue, under.Name, d.Feature, d.Name)
			}
		}
	}
}

const valid = `issue: coredns#1
url: https://example.org
bug: It hangs.
program: coredns
introduced: v1
fixedIn: v1.13.0
broken: v1.12.4
fixed: v1.13.0
scenario: spot-notice-drains-node
red: {check: drained, subject: victim}
plays: 1
`

func TestInvalidCases(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"an unknown field":                    {"plays: 1", "plays: 1\nrepeats: 2", "case.yaml:12"},
		"an empty sentence":                   {"bug: It hangs.", "bug: ''", "case.yaml:3: bug: must not be empty"},
		"an unknown program":                  {"program: coredns", "program: bind", `case.yaml:4: program: "bind" is not known; allowed: nth, karpenter, coredns, kube-proxy`},
		"a version that nothing builds":       {"broken: v1.12.4", "broken: v0.0.1", "case.yaml:7: broken: kind/images/releases/coredns-v0.0.1 is not there"},
		"the same version twice":              {"broken: v1.12.4", "broken: v1.13.0", "is the broken version"},
		"fixed somewhere and not played":      {"fixed: v1.13.0\n", "", "needs fixedIn and fixed, or notFixed"},
		"fixed and not fixed":                 {"plays: 1", "plays: 1\nnotFixed: main has it", "needs fixedIn and fixed, or notFixed"},
		"no play":                             {"plays: 1", "plays: 0", "case.yaml:11: plays: 0 is less than 1"},
		"settings of what is no handler":      {"plays: 1", "plays: 1\nsettings: {WORKERS: '2'}", "coredns is no handler"},
		"an unknown scenario":                 {"spot-notice-drains-node", "spot-notice", `unknown scenario "spot-notice"`},
		"a check that the scenario lacks":     {"check: drained", "check: dnsLost", `has no check "dnsLost victim"`},
		"a subject that the scenario lacks":   {"subject: victim", "subject: second", `has no check "drained second"`},
		"a consequence that does not exist":   {"plays: 1", "plays: 1\nconsequences: [{check: thirsty}]", `has no check "thirsty"`},
		"a version with a number and no text": {"plays: 1", "plays: many", "case.yaml:11"},
	} {
		t.Run(name, func(t *testing.T) {
			suite := t.TempDir()
			write(t, filepath.Join(suite, "cases", "case.yaml"), strings.Replace(valid, c.old, c.new, 1))
			if _, err := Load(root, suite); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestTwoCasesHaveTwoNames(t *testing.T) {
	suite := t.TempDir()
	write(t, filepath.Join(suite, "cases", "one.yaml"), valid)
	if _, err := Load(root, suite); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(suite, "cases", "two.yaml"), valid)
	if _, err := Load(root, suite); err == nil || !strings.Contains(err.Error(), `another case is named "coredns#1"`) {
		t.Errorf("got %v", err)
	}
}

// A handler is played with its release's image, unless the version is what its
// description builds anyway.
func TestHandlerOfAVersion(t *testing.T) {
	karpenter := Case{Program: kind.Karpenter, Settings: map[string]string{"A": "1"}}
	own, err := karpenter.Handler("v1.15.0")
	if err != nil || own.Release != nil {
		t.Errorf("release %v, %v; want the description's own image", own.Release, err)
	}
	old, err := karpenter.Handler("v1.2.1")
	if err != nil || old.Release == nil || old.Meta().Version != "v1.2.1" || old.Always["A"] != "1" {
		t.Errorf("got %+v, %v", old, err)
	}
	if old.For("spot", "").Same(own.For("spot", "")) {
		t.Error("two versions are the same handler: the second would not be installed")
	}
	nth, err := Case{Program: kind.NTH, Taint: "t"}.Handler("v1.25.1")
	if err != nil || nth.Release == nil || nth.Marks.Unschedulable || nth.Marks.Taint != "t" {
		t.Errorf("got %+v, %v", nth, err)
	}
}

func TestEachCaseHasItsNight(t *testing.T) {
	all := cases(t)
	seen := map[string]bool{}
	for day := range len(all) {
		for _, c := range Tonight(all, day+1, 2) {
			seen[c.Issue] = true
		}
		if night := Tonight(all, day+1, 2); len(night) != 2 || night[0].Issue == night[1].Issue {
			t.Errorf("night %d has %d cases", day, len(night))
		}
	}
	if len(seen) != len(all) {
		t.Errorf("%d of %d cases have a night", len(seen), len(all))
	}
}

func TestACaseIsNamedByItsIssue(t *testing.T) {
	all := cases(t)
	if c, err := Named(all, "nth#1277"); err != nil || c.Issue != "NTH#1277" {
		t.Errorf("got %q, %v", c.Issue, err)
	}
	if _, err := Named(all, "NTH"); err == nil || !strings.Contains(err.Error(), "known: ") {
		t.Errorf("got %v", err)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func result(verdicts ...verdict.Verdict) verdict.Result {
	r := verdict.Result{Outcome: verdict.Pass, Verdicts: verdicts}
	for _, v := range verdicts {
		if v.Outcome != verdict.Pass {
			r.Outcome = v.Outcome
		}
	}
	return r
}

func found(id verdict.ID, subject string, outcome verdict.Outcome) verdict.Verdict {
	return verdict.Verdict{ID: id, Subject: subject, Check: string(id) + " " + subject, Outcome: outcome, Got: "so"}
}

func TestWhatAPlayShows(t *testing.T) {
	c := Case{Red: Check{"marked", "second"}, Consequences: []Check{{"drained", "second"}}}
	for name, play := range map[string]struct {
		result verdict.Result
		want   Color
	}{
		"all pass":                          {result(found("marked", "second", verdict.Pass), found("drained", "second", verdict.Pass)), Green},
		"its check fails":                   {result(found("marked", "first", verdict.Pass), found("marked", "second", verdict.Fail)), Red},
		"its check fails, with consequence": {result(found("marked", "second", verdict.Fail), found("drained", "second", verdict.Fail)), Red},
		"a consequence is unknown":          {result(found("marked", "second", verdict.Fail), found("drained", "second", verdict.Unknown)), Red},
		"only a consequence fails":          {result(found("marked", "second", verdict.Pass), found("drained", "second", verdict.Fail)), Other},
		"another subject fails":             {result(found("marked", "first", verdict.Fail), found("marked", "second", verdict.Pass)), Other},
		"another check fails as well":       {result(found("marked", "second", verdict.Fail), found("deleted", "it", verdict.Fail)), Other},
		"its check is unknown":              {result(found("marked", "second", verdict.Unknown)), Gray},
		"another check is unknown":          {result(found("marked", "second", verdict.Fail), found("control", "", verdict.Unknown)), Gray},
		"an invalid outcome":                {result(found("marked", "second", "fine")), Gray},
		"skipped":                           {result(found("applies", "", verdict.Skipped)), Gray},
		"nothing judged":                    {verdict.Result{}, Gray},
	} {
		if got, saw := c.Judge(play.result); got != play.want || saw == "" {
			t.Errorf("%s: %s (%s), want %s", name, got, saw, play.want)
		}
	}
}

func TestFate(t *testing.T) {
	one, five, unfixed := Case{Fixed: "v2", Plays: 1}, Case{Fixed: "v2", Plays: 5}, Case{Plays: 1, NotFixed: "main has it"}
	play := func(color Color, plays int) Play { return Play{Color: color, Plays: plays} }
	for name, f := range map[string]struct {
		c      Case
		broken Play
		fixed  *Play
		want   Fate
	}{
		"red, then green":                {one, play(Red, 1), new(play(Green, 1)), Reproduced},
		"red in the third, then 5 green": {five, play(Red, 3), new(play(Green, 5)), Reproduced},
		"red, and green too few times":   {five, play(Red, 1), new(play(Green, 4)), NotReproduced},
		"red, and no version fixes it":   {unfixed, play(Red, 1), nil, ReproducedRed},
		"green":                          {unfixed, play(Green, 1), nil, NotReproduced},
		"another check":                  {one, play(Other, 1), nil, NotReproduced},
		"unknown":                        {one, play(Gray, 1), nil, NotJudged},
		"red, and the fixed one is red":  {one, play(Red, 1), new(play(Red, 1)), NotReproduced},
		"red, and the fixed one fails":   {one, play(Red, 1), new(play(Other, 1)), NotReproduced},
		"red, and the fixed one unknown": {one, play(Red, 1), new(play(Gray, 1)), NotJudged},
		"red, and the fixed not played":  {one, play(Red, 1), nil, NotJudged},
	} {
		got, saw := f.c.Fate(f.broken, f.fixed)
		if got != f.want || saw == "" {
			t.Errorf("%s: %s (%s), want %s", name, got, saw, f.want)
		}
		if want := f.want == Reproduced || f.want == ReproducedRed; got.Is() != want {
			t.Errorf("%s: a reproduction: %t", name, got.Is())
		}
	}
}

// The broken version is played until it is red, the fixed one while it is green.
func TestHowManyPlays(t *testing.T) {
	c := Case{Plays: 3}
	for name, p := range map[string]struct {
		colors        []Color
		broken, fixed bool
		color         Color
	}{
		"none yet":              {nil, true, true, ""},
		"green":                 {[]Color{Green}, true, true, Green},
		"red":                   {[]Color{Red}, false, false, Red},
		"green, red":            {[]Color{Green, Red}, false, false, Red},
		"unknown, green":        {[]Color{Gray, Green}, true, false, Gray},
		"unknown, red":          {[]Color{Gray, Red}, false, false, Red},
		"green, unknown":        {[]Color{Green, Gray}, true, false, Gray},
		"another check":         {[]Color{Other}, false, false, Other},
		"green, green and over": {[]Color{Green, Green, Green}, false, false, Green},
	} {
		var play Play
		for _, color := range p.colors {
			play = play.Add(color, string(color))
		}
		if play.Color != p.color {
			t.Errorf("%s: %s", name, play.Color)
		}
		if len(p.colors) == 0 {
			continue
		}
		if got := c.Next(play, true); got != p.broken {
			t.Errorf("%s: another play of the broken version: %t", name, got)
		}
		if got := c.Next(play, false); got != p.fixed {
			t.Errorf("%s: another play of the fixed version: %t", name, got)
		}
	}
}
