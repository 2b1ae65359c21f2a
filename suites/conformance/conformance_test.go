// Package conformance checks a handler under test against the catalogue: one spec per
// scenario, on a real cluster.
package conformance

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/spotdrill/spotdrill/framework/session"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
	"github.com/spotdrill/spotdrill/suites/flags"
	"github.com/spotdrill/spotdrill/suites/labels"
)

var (
	drillFlag     = flags.AddDrill()
	systemFlags   = flags.AddSystem()
	handlerFlags  = flags.AddHandler()
	outFlag       = flags.AddOut("reports/out")
	setFlag       = flag.String("set", string(scenarios.Fast), "set of scenarios: fast or full")
	scenariosFlag = flag.String("scenarios", "", "names of scenarios, separated by commas, instead of a set")
	lanesFlag     = flag.Int("lanes", 1, "how many drills can play at the same time, see spotdrill run --lanes")
	shardFlag     = flag.String("shard", "", "part of the scenarios to play, such as 2/4")
	repeatFlag    = flag.Int("repeat", 1, "times to play each scenario")
)

func TestSpecs(t *testing.T) {
	drillFlag.SkipUnless(t, "conformance")
	set := scenarios.Set(*setFlag)
	loader, err := systemFlags.Scenarios()
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := loader.Select(set, flags.Names(*scenariosFlag))
	if err != nil {
		t.Fatal(err)
	}
	if chosen, err = labels.Selected(chosen, labels.Of); err != nil {
		t.Fatalf("of set %s: %v", set, err)
	}
	shard, err := scenarios.ParseShard(*shardFlag)
	if err != nil {
		t.Fatal(err)
	}
	under, other, image, err := handlerFlags.Load()
	if err != nil {
		t.Fatal(err)
	}
	var more []scenarios.Scenario
	if noSelfCheck(under, chosen) == "" {
		more = slices.DeleteFunc(slices.Clone(chosen), func(s scenarios.Scenario) bool { return !isIdleScenario(s) })
	}
	session, err := systemFlags.Session(".", session.Options{
		Handler: under, Other: other, HandlerImage: image, Set: set, Scenarios: chosen, Shard: shard, Repeat: *repeatFlag, Lanes: *lanesFlag, Out: *outFlag, More: more,
	})
	if err != nil {
		t.Fatal(err)
	}
	suite{session}.specs()
	RegisterFailHandler(Fail)
	RunSpecs(t, "spotdrill conformance")
}

func (s suite) specs() {
	BeforeSuite(func(ctx SpecContext) { Expect(s.SetUp(ctx)).To(Succeed()) }, NodeTimeout(session.SetUpTimeout))
	BeforeEach(func() { fmt.Fprintln(os.Stderr) }) // the console does not go on in the line of Ginkgo's dots
	AfterSuite(func(ctx SpecContext) { Expect(s.Finish(ctx)).To(Succeed()) }, NodeTimeout(session.FinishTimeout))
	Describe("Handler "+s.Handler.Name, Ordered, ContinueOnFailure, func() {
		var drills []TableEntry
		for _, scenario := range s.Scenarios {
			drills = append(drills, Entry(scenario.Name+": "+scenario.Title, Label(labels.Of(scenario)...), scenario))
		}
		DescribeTable("keeps", func(ctx SpecContext, scenario scenarios.Scenario) {
			result := s.drill(ctx, scenario)
			if result.Outcome == verdict.Skipped {
				Skip(result.Verdicts[0].Got)
			}
			Expect(result).To(passed())
		}, drills)
		It("judges at least one scenario", Label(labels.OfAll(s.Scenarios)...), func() {
			counts := s.Report().Summary
			Expect(counts.Skipped).To(BeNumerically("<", counts.Total), "nothing was judged: all were skipped")
		})
		It("self-check: a handler that does nothing fails "+idleScenario, Label(append(s.idleLabels(), "self-check")...), func(ctx SpecContext) {
			if reason := cmp.Or(s.NoSystem(), noSelfCheck(s.Handler, s.Scenarios)); reason != "" {
				Skip(reason)
			}
			Expect(s.selfCheck(ctx).Outcome).To(Equal(verdict.Fail), "a harness that passes a handler which never acts proves nothing")
		})
	})
}
