package explore

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
)

func catalogue(t *testing.T, name string) scenarios.Scenario {
	t.Helper()
	all, err := verdict.Scenarios().Select(scenarios.Full, []string{name})
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

func baseFor(t *testing.T, name string) base {
	t.Helper()
	b, err := baseOf(catalogue(t, name), verdict.Scenarios())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func points() []Point {
	return []Point{
		{history.OnAPI, fault.Point{Call: "get", Resource: "nodes", Node: "victim", N: 1}},
		{history.OnAPI, fault.Point{Call: "patch", Resource: "nodes", Node: "victim", N: 1}},
		{history.OnAPI, fault.Point{Call: "list", Resource: "pods", N: 2}},
		{history.OnAPI, fault.Point{Call: "create", Resource: "pods/eviction", N: 3}},
		{history.OnQueue, fault.Point{Call: "ReceiveMessage", N: 1}},
		{history.OnQueue, fault.Point{Call: "DeleteMessage", N: 1}},
	}
}

func TestWhatIsExploredOfAScenario(t *testing.T) {
	b := baseFor(t, "spot-notice-drains-node")
	kinds := make([]string, len(b.Checks))
	for i, c := range b.Checks {
		kinds[i] = c.Kind
	}
	if want := "marked drained noEviction deleted untouched queueEmpty"; strings.Join(kinds, " ") != want {
		t.Errorf("checks %q, want %q", kinds, want)
	}
	if strings.Join(b.dropped, " ") != "losses" {
		t.Errorf("not judged: %q, want losses", b.dropped)
	}
	s, err := b.clean(1)
	if err != nil {
		t.Fatal(err)
	}
	if why := s.Claims().NotInLane(); why != "" {
		t.Errorf("it cannot be played in a lane: %s", why)
	}
}

// A scenario without a notice for a node has nothing that a handler must do.
func TestWhatCannotBeExplored(t *testing.T) {
	if _, err := baseOf(catalogue(t, "coredns-pod-deleted"), verdict.Scenarios()); err == nil || !strings.Contains(err.Error(), "puts no notice for a node") {
		t.Errorf("error %v, want one that names what is missing", err)
	}
}

func TestEachVariationIsAScenario(t *testing.T) {
	for _, name := range []string{"spot-notice-drains-node", "state-stopping-drains-node"} {
		b, names := baseFor(t, name), map[string]bool{}
		var all []Perturbation
		for _, p := range points() {
			all = append(all, perturbations(p, b.notice, []string{"pods", "nodes"})...)
		}
		for i, one := range all {
			s, err := b.vary([]Perturbation{one})
			if err != nil {
				t.Fatalf("%s: %v", one, err)
			}
			if why := s.Claims().NotInLane(); why != "" {
				t.Errorf("%s cannot be played in a lane: %s", s.Name, why)
			}
			if names[s.Name] {
				t.Errorf("two variations are named %s", s.Name)
			}
			names[s.Name] = true
			if _, err := b.vary([]Perturbation{one, all[(i+7)%len(all)]}); err != nil && len(one.then) == 0 {
				t.Errorf("%s and another: %v", one, err)
			}
		}
		if len(all) < 60 {
			t.Errorf("only %d variations", len(all))
		}
	}
}

// A handler that lost 20 s cannot be expected to be as fast as one that did not; but the notice's deadline stays.
func TestABoundGrowsByWhatIsTakenAway(t *testing.T) {
	b := baseFor(t, "spot-notice-drains-node")
	p := perturbations(points()[1], b.notice, nil)
	crash := p[slices.IndexFunc(p, func(p Perturbation) bool { return p.Kind == "crash-before" })]
	for want, all := range map[time.Duration][]Perturbation{
		5*time.Second + killedWithin + Allowance: {crash},
		deadline:                                 {crash, crash, crash},
	} {
		s, err := b.vary(all)
		if len(all) > 1 {
			s, err = b.parse("x", b.Scenario, 3*killedWithin+Allowance)
		}
		if err != nil {
			t.Fatal(err)
		}
		marked, ok := s.Checks[0].Requirement.(verdict.Marked)
		if !ok || marked.Within.D() != want {
			t.Errorf("%d perturbations: marked within %s, want %s", len(all), marked.Within.D(), want)
		}
	}
}

// A handler that is known to break a check can be explored without it; what fails only sometimes shows nothing.
func TestWhatFailsUndisturbedIsLeftOut(t *testing.T) {
	const pass, fail, unknown = verdict.Pass, verdict.Fail, verdict.Unknown
	for name, c := range map[string]struct {
		plays [][]verdict.Outcome // of each play: the scenario's six checks, and one that always applies
		kept  int
		err   string
	}{
		"all pass":            {[][]verdict.Outcome{{pass, pass, pass, pass, pass, pass, pass}, {pass, pass, pass, pass, pass, pass, pass}, {pass, pass, pass, pass, pass, pass, pass}}, 6, ""},
		"one always fails":    {[][]verdict.Outcome{{pass, pass, fail, pass, pass, pass, pass}, {pass, pass, fail, pass, pass, pass, pass}, {pass, pass, fail, pass, pass, pass, pass}}, 5, ""},
		"one fails once":      {[][]verdict.Outcome{{pass, pass, fail, pass, pass, pass, pass}, {pass, pass, pass, pass, pass, pass, pass}, {pass, pass, pass, pass, pass, pass, pass}}, 6, "fails 1 of 3 times by noEviction"},
		"one is unknown":      {[][]verdict.Outcome{{unknown, pass, pass, pass, pass, pass, pass}, {pass, pass, pass, pass, pass, pass, pass}, {pass, pass, pass, pass, pass, pass, pass}}, 6, "is unknown"},
		"what always applies": {[][]verdict.Outcome{{pass, pass, pass, pass, pass, pass, fail}, {pass, pass, pass, pass, pass, pass, pass}, {pass, pass, pass, pass, pass, pass, pass}}, 6, "is fail"},
		"two plays":           {[][]verdict.Outcome{{pass, pass, pass, pass, pass, pass, pass}, {pass, pass, pass, pass, pass, pass, pass}}, 6, "only 2 of 3"},
	} {
		x := &exploration{base: baseFor(t, "spot-notice-drains-node")}
		var entries []reports.Entry
		for _, outcomes := range c.plays {
			var e reports.Entry
			for _, o := range outcomes {
				e.Verdicts = append(e.Verdicts, verdict.Verdict{Outcome: o})
			}
			entries = append(entries, e)
		}
		err := x.leaveOut(entries)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || len(x.Checks) != c.kept {
			t.Errorf("%s: %d checks are left, %v; want %d and %q", name, len(x.Checks), err, c.kept, c.err)
		}
	}
}

// What fails alone would hide what two disturbances do together.
func TestWhatIsCombinedPassesAlone(t *testing.T) {
	b := baseFor(t, "spot-notice-drains-node")
	var singles [][]Perturbation
	for _, p := range points() {
		for _, one := range perturbations(p, b.notice, nil)[:3] {
			singles = append(singles, []Perturbation{one})
		}
	}
	failed := func(p Perturbation) bool { return p.Kind == singles[0][0].Kind }
	novel := singles[1][0].String()
	exploring := func(seed uint64) *exploration {
		x := &exploration{base: b, random: rand.New(rand.NewPCG(seed, 0))}
		for _, p := range points() {
			x.result.Points = append(x.result.Points, p.String())
		}
		for _, one := range singles {
			s, err := b.vary(one)
			if err != nil {
				t.Fatal(err)
			}
			p := &Play{Scenario: s.Name, Perturbations: one, Outcomes: []verdict.Outcome{verdict.Pass}}
			if failed(one[0]) {
				p.Outcomes[0] = verdict.Fail
			}
			if one[0].String() == novel {
				p.New = mostWeight
			}
			x.result.Plays = append(x.result.Plays, p)
		}
		return x
	}
	names := func(all [][]Perturbation) (names []string) {
		for _, together := range all {
			s, err := b.vary(together)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, s.Name)
		}
		return names
	}
	x := exploring(1)
	first := x.combine(singles, 24)
	sizes, withNovel := map[int]int{}, 0
	for i, together := range first {
		sizes[len(together)]++
		inOrder := slices.IsSortedFunc(together, func(a, b Perturbation) int {
			return slices.Index(x.result.Points, a.Point) - slices.Index(x.result.Points, b.Point)
		})
		if !combinable(together) || !inOrder || slices.ContainsFunc(together, failed) {
			t.Errorf("a combination is %s", names(first)[i])
		}
		if slices.ContainsFunc(together, func(p Perturbation) bool { return p.String() == novel }) {
			withNovel++
		}
		x.result.Plays = append(x.result.Plays, &Play{Scenario: names(first)[i], Perturbations: together, Outcomes: []verdict.Outcome{verdict.Pass}})
	}
	if sizes[2] == 0 || sizes[3] == 0 || len(first) != 24 {
		t.Errorf("%d combinations, %v by size; want 24, of two and of three", len(first), sizes)
	}
	if withNovel < 6 {
		t.Errorf("what led to calls in a new order is in %d of 24 combinations, no more than any other", withNovel)
	}
	if again := names(exploring(1).combine(singles, 24)); !slices.Equal(again, names(first)) {
		t.Errorf("the same seed draws %q, and %q before", again, names(first))
	}
	for _, name := range names(x.combine(singles, 100)) {
		if slices.Contains(names(first), name) {
			t.Errorf("%s is played twice", name)
		}
	}
}
