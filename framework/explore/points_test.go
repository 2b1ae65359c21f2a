package explore

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

// play is a story with these calls since the first step, one after the other, each a verb or an action and what it is about.
func play(t *testing.T, calls ...string) *story.Story {
	t.Helper()
	var h history.History
	begun := history.Steps.Begins()
	begun.At = time.Second
	h.Events = append(h.Events, history.NewNodeRole("victim", "worker2", history.At(1)))
	for i, text := range append([]string{"get /nodes worker2"}, calls...) { // the first is made before the steps
		call, about, _ := strings.Cut(text, " ")
		resource, node, _ := strings.Cut(about, " ")
		took := history.With(history.Numbers{history.Took: 0.1})
		at := history.At(time.Second/2 + time.Duration(i)*time.Second)
		e := history.NewAPICall(call, resource, nil, history.Node(node), at, took)
		if strings.HasSuffix(call, "Message") {
			e = history.NewSQSCall("q", call, "", at, took)
			e.Numbers = history.Numbers{history.Messages: float64(len(about))}
		}
		h.Events = append(h.Events, e)
		if i == 0 {
			h.Events = append(h.Events, begun)
		}
	}
	return story.Read(catalogue(t, "spot-notice-drains-node"), h)
}

func TestThePointsOfUndisturbedPlays(t *testing.T) {
	for name, c := range map[string]struct {
		plays [][]string
		want  string
	}{
		"in the order of the first play": {
			[][]string{{"ReceiveMessage 1", "patch /nodes worker2", "DeleteMessage"}, {"patch /nodes worker2", "DeleteMessage", "ReceiveMessage 1"}},
			"queue: ReceiveMessage #1, api: patch nodes victim #1, queue: DeleteMessage #1",
		},
		"what one play lacks is none": {
			[][]string{{"list /pods", "create policy/pods/eviction", "create policy/pods/eviction"}, {"create policy/pods/eviction", "list /pods"}},
			"api: list pods #1, api: create pods.policy/eviction #1",
		},
		"the first three of a kind": {
			[][]string{{"list /pods", "list /pods", "list /pods", "list /pods"}},
			"api: list pods #1, api: list pods #2, api: list pods #3",
		},
		"polls without messages, leases, other nodes and what is no resource are none": {
			[][]string{{"ReceiveMessage ", "get /api/v1", "update coordination.k8s.io/leases", "get /nodes worker9"}},
			"",
		},
	} {
		var stories []*story.Story
		for _, calls := range c.plays {
			stories = append(stories, play(t, calls...))
		}
		var got []string
		for _, p := range pointsOf(stories) {
			got = append(got, p.String())
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %q, want %q", name, strings.Join(got, ", "), c.want)
		}
	}
}

// Calls that follow each other as in no earlier play show that the handler is in a state where it has not been.
func TestWhichCallsFollowEachOther(t *testing.T) {
	x := &exploration{}
	if n := x.follow(play(t, "list /pods", "patch /nodes worker2", "list /pods")); n != 3 {
		t.Errorf("%d are new in the first play, want 3: %q", n, x.result.Followed)
	}
	if n := x.follow(play(t, "list /pods", "patch /nodes worker2")); n != 0 {
		t.Errorf("%d are new in a play that begins like it, want none", n)
	}
	if n := x.follow(play(t, "patch /nodes worker2", "list /pods")); n != 1 {
		t.Errorf("%d are new in a play that begins otherwise, want 1: %q", n, x.result.Followed)
	}
}

func TestTheChecksOfAnEffectExist(t *testing.T) {
	var known []verdict.ID
	for _, k := range verdict.Kinds() {
		known = append(known, k.ID)
	}
	for _, id := range slices.Concat(mustHappen(), repeated()) {
		if !slices.Contains(known, id) {
			t.Errorf("there is no check %s", id)
		}
	}
}

func TestHowAHandlerFails(t *testing.T) {
	st := play(t, "patch /nodes worker2")
	empty := history.NewQueueDepth(history.With(history.Numbers{history.Visible: 0, history.Invisible: 0}))
	st.History.Events = append(st.History.Events, empty)
	st = story.Read(st.Scenario, st.History)
	for want, failed := range map[Effect][]verdict.ID{
		Late:    {"marked", "deleted"},
		Looping: {"evictedOnce", "marked"},
		Wrong:   {"untouched", "eventsNotRepeated"},
	} {
		if got := effectOf(failed, st); got != want {
			t.Errorf("%q: %s, want %s", failed, got, want)
		}
	}
	if got := effectOf([]verdict.ID{"marked"}, play(t)); got != Lost {
		t.Errorf("with a queue that was not looked at: %s, want %s", got, Lost)
	}
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	one := Perturbation{Kind: "conflict", Point: "api: patch nodes victim #1"}
	two := Perturbation{Kind: "slow", Point: "queue: DeleteMessage #1"}
	failed := func(scenario string, all ...Perturbation) *Play {
		return &Play{Scenario: scenario, Perturbations: all, Outcomes: []verdict.Outcome{verdict.Fail, verdict.Pass, verdict.Fail}, Failed: []verdict.ID{"drained", "marked"}, Effect: Lost}
	}
	r := Result{Handler: "x v1", Scenario: "s", Points: []string{one.Point, two.Point}, Map: []Perturbation{one, two}, Plays: []*Play{
		failed("pair", one, one), failed("single", one),
		{Scenario: "once", Perturbations: []Perturbation{two}, Outcomes: []verdict.Outcome{verdict.Fail, verdict.Pass, verdict.Pass}},
		{Scenario: "passes", Perturbations: []Perturbation{two}, Outcomes: []verdict.Outcome{verdict.Pass}},
	}}
	dir := t.TempDir()
	if err := errors.Join(r.Write(dir), r.WritePage(dir)); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, PageFile))
	for _, want := range []string{
		`<th scope="row">api: patch nodes victim #1</th><td class="skipped" title="patch-nodes-victim-1-conflict">·</td><td class="" title=""></td>`,
		"<h2>lost: drained, marked, at api: patch nodes victim</h2>",
	} {
		if err != nil || !strings.Contains(string(page), want) {
			t.Errorf("%q is missing in the page, %v:\n%s", want, err, page)
		}
	}
	again, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var text [2]strings.Builder
	for i, r := range []Result{r, again} {
		if err := r.WriteText(&text[i]); err != nil {
			t.Fatal(err)
		}
	}
	if text[0].String() != text[1].String() {
		t.Errorf("it is read as\n%s", text[1].String())
	}
	for _, want := range []string{
		"api: patch nodes victim #1  0     1     0        conflict",
		"queue: DeleteMessage #1     1     0     1",
		"lost: drained, marked, at api: patch nodes victim (1 variation)\n  single: [fail pass fail]",
		"4 of 2 played in 0 s: 1 passed, 2 failed (2 signatures), 1 unknown",
	} {
		if !strings.Contains(text[0].String(), want) {
			t.Errorf("%q is missing in\n%s", want, text[0].String())
		}
	}
}
