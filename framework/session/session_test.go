package session

import (
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
)

func TestAftermath(t *testing.T) {
	noise := verdict.Result{Outcome: verdict.Unknown, Verdicts: []verdict.Verdict{{Outcome: verdict.Unknown, Noise: true}}}
	failed := verdict.Result{Outcome: verdict.Fail, Verdicts: []verdict.Verdict{{Outcome: verdict.Fail}}}
	broken := verdict.Result{Outcome: verdict.Unknown, Verdicts: []verdict.Verdict{{Outcome: verdict.Unknown}}}
	for name, c := range map[string]struct {
		result  verdict.Result
		attempt int
		keep    bool
		want    aftermath
	}{
		"a pass":                             {verdict.Result{Outcome: verdict.Pass}, 1, true, restoreOnly},
		"a failure":                          {failed, 1, false, saveAndRestore},
		"a failure, to be kept":              {failed, 1, true, saveAndLeave},
		"what broke, to be kept":             {broken, 1, true, saveAndLeave},
		"noise, which is played again":       {noise, 1, true, saveAndRestore},
		"noise that stays, to be kept":       {noise, MaxAttempts, true, saveAndLeave},
		"noise that stays, not to be kept":   {noise, MaxAttempts, false, saveAndRestore},
		"an outcome that is not of the list": {verdict.Result{Outcome: "nonsense"}, 1, true, saveAndLeave},
	} {
		if got := aftermathOf(c.result, c.attempt, c.keep); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// loadedCatalogue is loaded once for all tests. They only read it.
var loadedCatalogue = sync.OnceValues(func() ([]scenarios.Scenario, error) { return verdict.Scenarios().Catalogue() })

func catalogue(t *testing.T) []scenarios.Scenario {
	t.Helper()
	all, err := loadedCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(all)
}

func session(t *testing.T, name string) *Session {
	t.Helper()
	under, err := handler.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	all := catalogue(t)
	s, err := New(Options{Handler: under, Set: scenarios.Fast, Scenarios: all, Console: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A feature that is not claimed is skipped with that reason. The drill of the fast set that shows
// the loss that a handler prevents is played with any; others without a handler are not.
func TestNotApplicable(t *testing.T) {
	const both = "../handler/testdata/valid-queue-and-metadata.yaml"
	sessions := map[string]*Session{} // by handler
	for name, c := range map[string]struct {
		handler, scenario, noImage, want string
	}{
		"claimed":                       {handler: "builtin", scenario: "state-stopping-drains-node"},
		"not claimed":                   {handler: "none", scenario: "state-stopping-drains-node", want: "not supported: the description of none does not claim state-change"},
		"core, claimed or not":          {handler: "none", scenario: "spot-notice-drains-node"},
		"played without one":            {handler: "none", scenario: "coredns-lost-without-handler"},
		"about CoreDNS alone":           {handler: "karpenter", scenario: "coredns-restarted", want: "no handler acts in it, so that it ends the same with every handler: it is played with --handler builtin or none"},
		"about CoreDNS, with builtin":   {handler: "builtin", scenario: "coredns-restarted"},
		"about CoreDNS, without any":    {handler: "none", scenario: "coredns-restarted"},
		"what a handler prevents":       {handler: "karpenter", scenario: "coredns-lost-without-handler"},
		"how a node ends, without one":  {handler: "karpenter", scenario: "coredns-shut-down-with-its-node", want: "no handler acts in it, so that it ends the same with every handler: it is played with --handler builtin or none"},
		"would be drained by itself":    {handler: "karpenter", scenario: "notice-before-its-node-joins-is-kept", want: "cannot be arranged: karpenter drains a node whose object is deleted, so that no running instance can be without one"},
		"has one replica that receives": {handler: "karpenter", scenario: "two-replicas-drain-once", want: "cannot be arranged: only one replica of karpenter receives messages, so that no second one can get a copy"},
		"deleted in the middle":         {handler: "karpenter", scenario: "node-object-deleted-in-the-middle-does-not-stop-the-next-notice"},
		"deleted by an operator":        {handler: "karpenter", scenario: "node-deleted-by-hand-is-drained-and-terminated"},
		"its notice is announced":       {handler: "nth-imds", scenario: "spot-notice-drains-node"},
		"its notice is no announcement": {handler: "nth-imds", scenario: "state-stopping-drains-node", want: "cannot be arranged: nth-imds reads no queue, and metadata does not announce state-change"},
		"the queue is not its own":      {handler: "nth-imds", scenario: "slow-queue-is-outlived", want: "cannot be arranged: nth-imds reads no queue, and the queue fails in it"},
		"it has no replicas":            {handler: "nth-imds", scenario: "cut-off-handler-finishes-the-drain", want: "cannot be arranged: nth-imds runs on each node, and it would cut off the nodes that the handler shares its network with"},
		"of metadata, with metadata":    {handler: "nth-imds", scenario: "slow-instance-metadata-is-waited-for"},
		"of metadata, with a queue":     {handler: "builtin", scenario: "slow-instance-metadata-is-waited-for", want: "cannot be arranged: builtin does not read the metadata of its instance"},
		"at the start, with metadata":   {handler: "builtin-imds", scenario: "metadata-refused-at-the-start-is-outlived"},
		"at the start, with both":       {handler: both, scenario: "metadata-refused-at-the-start-is-outlived"},
		"both, and the queue fails":     {handler: both, scenario: "slow-queue-is-outlived"},
		"both, of a node without it":    {handler: both, scenario: "slow-instance-metadata-is-waited-for", want: "cannot be arranged: the metadata of victim fails, and mine does not run on each node: leave out node, or move the handler there first"},
		"of one's own, not described":   {handler: "../handler/testdata/valid.yaml", scenario: "metadata-refused-at-the-start-is-outlived", want: "cannot be arranged: mine does not read the metadata of its instance; if it does, its description has reads: [queue, metadata]"},
		"of a queue, without a handler": {handler: "nth-imds", scenario: "coredns-lost-without-handler"},
		"together with another":         {handler: "karpenter", scenario: "two-handlers-on-one-queue"},
		"with none that it claims":      {handler: "builtin", scenario: "two-handlers-on-one-queue", want: "two handlers: it is played with --handler builtin --handler nth"},
		"no image of it is here":        {handler: "nth", scenario: "spot-notice-drains-node", noImage: "no registry", want: "no registry"},
	} {
		s := sessions[c.handler]
		if s == nil {
			s = session(t, c.handler)
			sessions[c.handler] = s
		}
		s.cannot = c.noImage
		chosen, err := verdict.Scenarios().Select(scenarios.Full, []string{c.scenario})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.NotApplicable(chosen[0]); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A run with two handlers plays the drills of two, and no others.
func TestTwoHandlers(t *testing.T) {
	for name, c := range map[string]struct{ handler, other, scenario, want string }{
		"of two":                            {"karpenter", "nth", "two-handlers-on-one-queue", ""},
		"claimed or not":                    {"builtin", "nth", "two-handlers-on-one-queue", ""},
		"of one":                            {"karpenter", "nth", "spot-notice-drains-node", "it is about one handler, and this run has two"},
		"with objects for the workers":      {"builtin", "karpenter", "two-handlers-on-one-queue", "cannot be arranged: karpenter has objects of its own for the workers, so that it must be the first of the two handlers"},
		"what the second does not claim":    {"karpenter", "builtin", "second-handler-drains-at-the-rebalance-recommendation", "not supported: the description of builtin, the second handler, does not claim rebalance-drain"},
		"the first reads metadata":          {"nth-imds", "builtin", "two-handlers-with-a-queue-each", "cannot be arranged: nth-imds reads the metadata of its instance, so that it must be the second of the two handlers"},
		"nobody":                            {"builtin", "none", "two-handlers-on-one-queue", "cannot be arranged: it requires two handlers"},
		"the second one's image is missing": {"karpenter", "nth-imds", "two-handlers-on-one-queue", "no registry"},
	} {
		under, other, err := handler.LoadPair([]string{c.handler, c.other})
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(Options{Handler: under, Other: other, Set: scenarios.Full, Console: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		s.without = map[string]string{"nth-imds": "no registry"}
		chosen, err := verdict.Scenarios().Select(scenarios.Full, []string{c.scenario})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.NotApplicable(chosen[0]); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if _, _, err := handler.LoadPair([]string{"nth", "nth"}); err == nil {
		t.Error("the same handler twice is accepted")
	}
}

// If no system can be brought up, nothing is played, and nothing passes.
func TestWithoutASystemAllIsSkipped(t *testing.T) {
	s := session(t, "builtin")
	if reason := s.NoSystem(); reason != "" {
		t.Errorf("before the set-up: %q", reason)
	}
	s.cannot = system.ErrNoIPVS.Error()
	for _, scenario := range s.Scenarios {
		if reason := s.NotApplicable(scenario); reason != s.cannot || s.NoSystem() != s.cannot {
			t.Errorf("%s is not skipped: %q, %q", scenario.Name, reason, s.NoSystem())
		}
	}
}

// Nodes whose image has no login manager cannot be shut down: that is why a drill is skipped, and no other is.
func TestWithoutALoginManagerNoNodeIsShutDown(t *testing.T) {
	s := session(t, "builtin")
	s.system = &system.System{}
	s.system.NodeSystem.NoShutdown = "the image has no D-Bus"
	skipped := 0
	for _, scenario := range catalogue(t) {
		reason := s.NotApplicable(scenario)
		if down := len(scenario.ShutDown()) > 0; down != (reason == s.system.NodeSystem.NoShutdown) {
			t.Errorf("%s shuts a node down: %t; it is skipped: %q", scenario.Name, down, reason)
		} else if down {
			skipped++
		}
	}
	if skipped < 1 {
		t.Error("no scenario shuts a node down")
	}
}

// The report of an interrupted run also has what was played before its turn.
func TestFinishReportsWhatWasPlayedAhead(t *testing.T) {
	s := session(t, "builtin")
	s.Scenarios = s.Scenarios[:2]
	var err error
	if s.folder, err = reports.NewFolder(t.TempDir(), s.started); err != nil {
		t.Fatal(err)
	}
	s.report = reports.New(s.folder, reports.Handler{Name: "builtin"}, s.Set, nil)
	ahead := s.Scenarios[1].Name
	s.ahead[ahead] = reports.Entry{Result: verdict.Result{Scenario: ahead, Outcome: verdict.Pass}}
	if err := s.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := s.report.Results; len(r) != 2 || r[0].Outcome != verdict.Unknown || r[1].Outcome != verdict.Pass {
		t.Errorf("results %+v", r)
	}
}

func TestADeviationFromNoClauseIsAnError(t *testing.T) {
	under, err := handler.Load("builtin")
	if err != nil {
		t.Fatal(err)
	}
	under.Deviations = map[string]string{"my-own-scenario": "It is not kept."}
	opts := Options{Handler: under, Console: io.Discard}
	if _, err := New(opts); err == nil || !strings.Contains(err.Error(), "no scenario has this name") {
		t.Errorf("error %v", err)
	}
	opts.Scenarios = []scenarios.Scenario{{Name: "my-own-scenario"}}
	if _, err := New(opts); err != nil {
		t.Errorf("of a scenario that is played: %v", err)
	}
}

// A session that was never set up has nothing to put back or to write.
func TestFinishBeforeSetUp(t *testing.T) {
	s := session(t, "builtin")
	if err := s.Finish(t.Context()); err != nil || s.Again() != "" || s.Unrestored() != "" || s.Report() != nil {
		t.Errorf("error %v, again %q, left %q", err, s.Again(), s.Unrestored())
	}
}

// A scenario is played at the same time as the later one whose duration is nearest, and with none
// if each must be played by itself.
func TestPartner(t *testing.T) {
	s := session(t, "builtin")
	find := func(name string) scenarios.Scenario {
		for _, one := range s.Scenarios {
			if one.Name == name {
				return one
			}
		}
		t.Fatalf("no scenario %s", name)
		return scenarios.Scenario{}
	}
	first := find("bare-pod-is-evicted")
	partner, ok := s.partner(first)
	if !ok || !s.shares(first, partner) || partner.Name == first.Name {
		t.Fatalf("%s, %t", partner.Name, ok)
	}
	apart := func(o scenarios.Scenario) float64 {
		return (Expected(o, s.Set) - Expected(first, s.Set)).Abs().Seconds()
	}
	later := false
	for _, o := range s.Scenarios {
		if later && s.shares(first, o) && apart(o) < apart(partner) {
			t.Errorf("%s is nearer in duration than %s", o.Name, partner.Name)
		}
		later = later || o.Name == first.Name
	}
	s.Handler.Deviations = map[string]string{partner.Name: "for a reason"}
	if known, _ := s.partner(first); known.Name == partner.Name {
		t.Error("a scenario that the handler is known to fail is played at the same time as another")
	}
	s.Handler.Deviations = nil
	s.played[partner.Name] = true
	if next, _ := s.partner(first); next.Name == partner.Name {
		t.Error("a scenario that was played is played again")
	}
	for name, edit := range map[string]func(){
		"it was played at the same time as another": func() { s.played[first.Name] = true },
		"the first failure is kept":                 func() { s.Keep = true },
		"each is repeated":                          func() { s.Repeat = 5 },
		"the others are not supported":              func() { s.cannot = "no registry" },
		"the handler is known to fail it": func() {
			s.Handler.Deviations = map[string]string{first.Name: "for a reason"}
		},
	} {
		s = session(t, "builtin")
		edit()
		if partner, ok := s.partner(first); ok {
			t.Errorf("%s, and it is played at the same time as %s", name, partner.Name)
		}
	}
	if partner, ok := session(t, "builtin").partner(find("coredns-drained-lameduck-0s")); ok {
		t.Errorf("what measures DNS is played at the same time as %s", partner.Name)
	}
}
