package upgrade

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/session"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
)

// cluster plays parts by outcomes that are written down: for each version and scenario one letter for each play, the
// last of which goes on for ever: p, f, u, s; a capital C is a Ctrl-C in the middle of the play.
type cluster struct {
	outcomes map[string]string // of "v1 a"
	next     map[string]int
	runs     int
	parts    []string
	cancel   context.CancelFunc
}

func (c *cluster) play(o Options) func(context.Context, Part) error {
	return func(ctx context.Context, p Part) error {
		names := make([]string, len(p.Scenarios))
		c.runs++
		folder, err := reports.NewFolder(filepath.Join(o.Folder(), string(p.Side)), time.Unix(int64(c.runs), 0))
		if err != nil {
			return err
		}
		r := reports.New(folder, reports.Handler{Name: "karpenter", Version: p.Version}, o.Set, map[string]string{"kube-proxy": "iptables"})
		for i, s := range p.Scenarios {
			names[i] = s.Name
			var plays []reports.Entry
			for n := 0; n < p.Repeat && ctx.Err() == nil; n++ {
				plays = append(plays, c.entry(s.Name, p.Version))
			}
			if ctx.Err() != nil {
				r.EndedEarly = "interrupted"
			}
			if len(plays) > 0 {
				r.Add(reports.Worst(plays))
			}
		}
		c.parts = append(c.parts, fmt.Sprintf("%s: %s x%d", p.Version, strings.Join(names, " "), p.Repeat))
		return folder.Write(r)
	}
}

func (c *cluster) entry(scenario, version string) reports.Entry {
	key := version + " " + scenario
	letters := c.outcomes[key]
	letter := letters[min(c.next[key], len(letters)-1)]
	c.next[key]++
	outcome := map[byte]verdict.Outcome{'p': verdict.Pass, 'f': verdict.Fail, 'u': verdict.Unknown, 's': verdict.Skipped, 'C': verdict.Unknown}[letter]
	if letter == 'C' {
		c.cancel()
	}
	return reports.NewEntry(verdict.Result{
		Scenario: scenario, Profile: "SPOT", Digest: "d", Outcome: outcome,
		Verdicts: []verdict.Verdict{{ID: "drained", Check: "drained victim", Outcome: outcome, Want: "it drains", Got: "seen with " + version}},
	})
}

func options(t *testing.T) Options {
	t.Helper()
	return Options{
		Program: "karpenter", From: "v1", To: "v2", Set: scenarios.Fast, Plays: reports.LeastPlays, Out: t.TempDir(), Log: t.Logf,
		Scenarios: []scenarios.Scenario{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		Session: func(string) (session.Options, error) {
			return session.Options{Handler: handler.Description{Name: "karpenter"}, System: system.Options{ProxyMode: history.IPTables}}, nil
		},
	}
}

func TestWhatDiffersIsPlayedAsOftenAsAProofNeeds(t *testing.T) {
	for name, c := range map[string]struct {
		outcomes map[string]string
		parts    []string
		states   map[string]reports.ChangeState
	}{
		"nothing differs": {
			map[string]string{"v1 a": "p", "v1 b": "f", "v1 c": "s", "v2 a": "p", "v2 b": "f", "v2 c": "s"},
			[]string{"v1: a b c x1", "v2: a b c x1"},
			map[string]reports.ChangeState{"a": reports.Alike, "b": reports.Alike},
		},
		"worse, and better": {
			map[string]string{"v1 a": "p", "v1 b": "f", "v1 c": "p", "v2 a": "f", "v2 b": "p", "v2 c": "p"},
			[]string{"v1: a b c x1", "v2: a b c x1", "v2: a b x3", "v1: a b x3"},
			map[string]reports.ChangeState{"a": reports.Worse, "b": reports.Better, "c": reports.Alike},
		},
		"by chance": {
			map[string]string{"v1 a": "p", "v1 b": "p", "v1 c": "p", "v2 a": "fp", "v2 b": "p", "v2 c": "p"},
			[]string{"v1: a b c x1", "v2: a b c x1", "v2: a x3", "v1: a x3"},
			map[string]reports.ChangeState{"a": reports.NotProven, "b": reports.Alike, "c": reports.Alike},
		},
		"unknown once": {
			map[string]string{"v1 a": "up", "v1 b": "p", "v1 c": "p", "v2 a": "p", "v2 b": "p", "v2 c": "p"},
			[]string{"v1: a b c x1", "v1: a x1", "v2: a b c x1"},
			map[string]reports.ChangeState{"a": reports.Alike, "b": reports.Alike, "c": reports.Alike},
		},
		"unknown each time": {
			map[string]string{"v1 a": "p", "v1 b": "p", "v1 c": "p", "v2 a": "u", "v2 b": "p", "v2 c": "p"},
			[]string{"v1: a b c x1", "v2: a b c x1", "v2: a x1"},
			map[string]reports.ChangeState{"a": reports.Unjudged, "b": reports.Alike, "c": reports.Alike},
		},
		"skipped with one": {
			map[string]string{"v1 a": "s", "v1 b": "p", "v1 c": "p", "v2 a": "p", "v2 b": "p", "v2 c": "p"},
			[]string{"v1: a b c x1", "v2: a b c x1"},
			map[string]reports.ChangeState{"a": reports.Unjudged, "b": reports.Alike, "c": reports.Alike},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			made := cluster{outcomes: c.outcomes, next: map[string]int{}}
			changes, err := o.run(t.Context(), made.play(o))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(made.parts, c.parts) {
				t.Errorf("played %q\nwant %q", made.parts, c.parts)
			}
			if got := statesOf(changes); !maps.Equal(got, c.states) {
				t.Errorf("%v, want %v", got, c.states)
			}
			for _, file := range []string{reports.ChangesFile, reports.ChangesTextFile, reports.ChangesPageFile, reports.JUnitFile} {
				if text, err := os.ReadFile(filepath.Join(o.Folder(), file)); err != nil || !strings.Contains(string(text), "karpenter v2") {
					t.Errorf("%s: %v\n%s", file, err, text)
				}
			}
			if next, err := o.Next(t.Context()); name != "unknown each time" && (err != nil || len(next.Scenarios) != 0) {
				t.Errorf("left: %v, %v", next, err)
			}
		})
	}
}

func statesOf(c reports.Changes) map[string]reports.ChangeState {
	states := map[string]reports.ChangeState{}
	for _, change := range c.Checks {
		states[change.Scenario] = change.State
	}
	return states
}

// What was played stays, and the same call goes on. What Ctrl-C ended is played again.
func TestAnInterruptedComparisonGoesOn(t *testing.T) {
	o := options(t)
	ctx, cancel := context.WithCancel(t.Context())
	made := cluster{next: map[string]int{}, cancel: cancel, outcomes: map[string]string{
		"v1 a": "p", "v1 b": "p", "v1 c": "p", "v2 a": "f", "v2 b": "Cp", "v2 c": "p",
	}}
	if _, err := o.run(ctx, made.play(o)); err != nil {
		t.Fatal(err)
	}
	left, err := o.Next(t.Context())
	if err != nil || left.Side != After || len(left.Scenarios) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
	changes, err := o.run(t.Context(), made.play(o))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"v1: a b c x1", "v2: a b c x1", "v2: b c x1", "v2: a x3", "v1: a x3"}
	if !slices.Equal(made.parts, want) {
		t.Errorf("played %q\nwant %q", made.parts, want)
	}
	if got := statesOf(changes); got["a"] != reports.Worse || got["b"] != reports.Alike {
		t.Errorf("%v", got)
	}
	o.Plays = 6
	if _, err := o.run(t.Context(), made.play(o)); err != nil || len(made.parts) != len(want) {
		t.Errorf("a proven change was played again: %q, %v", made.parts, err)
	}
}

func TestABrokenRunEndsTheComparison(t *testing.T) {
	o, broken := options(t), errors.New("the engine is gone")
	if _, err := o.run(t.Context(), func(context.Context, Part) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

// The runs in the folder must be ones of this comparison.
func TestRunsOfAnotherComparisonAreRefused(t *testing.T) {
	o := options(t)
	made := cluster{next: map[string]int{}, outcomes: map[string]string{"v1 a": "p", "v1 b": "p", "v1 c": "p", "v2 a": "p", "v2 b": "p", "v2 c": "p"}}
	if _, err := o.run(t.Context(), made.play(o)); err != nil {
		t.Fatal(err)
	}
	for want, other := range map[string]session.Options{
		`of handler "karpenter", not "nth"`:           {Handler: handler.Description{Name: "nth"}, System: system.Options{ProxyMode: history.IPTables}},
		`of kube-proxy mode "iptables", not "ipvs"`:   {Handler: handler.Description{Name: "karpenter"}, System: system.Options{ProxyMode: history.IPVS}},
		`of platform "", not "eks-1.34"; choose anot`: {Handler: handler.Description{Name: "karpenter"}, System: system.Options{ProxyMode: history.IPTables, Platform: system.Platform{Name: "eks-1.34"}}},
	} {
		o.Session = func(string) (session.Options, error) { return other, nil }
		if _, err := o.Next(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
