// Package chaos checks a handler under test against what no single scenario requires:
// several things go wrong at once, drawn from a seed. What is played is a scenario like
// any other, with the same verdict and report.
package chaos

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/spotdrill/spotdrill/framework/session"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
	"github.com/spotdrill/spotdrill/suites/flags"
	"github.com/spotdrill/spotdrill/suites/labels"
)

var (
	drillFlag    = flags.AddDrill()
	systemFlags  = flags.AddSystem()
	handlerFlags = flags.AddHandler()
	outFlag      = flags.AddOut("reports/out/chaos")
	seedFlag     = flag.Uint64("seed", 0, "seed that the rounds are drawn from; 0: the time")
	roundsFlag   = flag.Int("rounds", 5, "number of rounds to play")
)

// round is one of the scenarios that are drawn from a seed.
type round struct {
	number   int // from 1
	scenario scenarios.Scenario
}

func (r round) labels() []string {
	return append(labels.Of(r.scenario), "round:"+strconv.Itoa(r.number))
}

func draw(seed uint64, rounds int) ([]round, error) {
	var drawn []round
	for n := 1; n <= rounds; n++ {
		s, err := read(compose(seed, n))
		if err != nil {
			return nil, err
		}
		drawn = append(drawn, round{n, s})
	}
	return drawn, nil
}

func TestSpecs(t *testing.T) {
	drillFlag.SkipUnless(t, "chaos")
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().Unix())
	}
	fmt.Fprintf(os.Stderr, "seed %d: make chaos SEED=%d plays the same rounds\n", seed, seed)
	rounds, err := draw(seed, *roundsFlag)
	if err != nil {
		t.Fatal(err)
	}
	if rounds, err = labels.Selected(rounds, round.labels); err != nil {
		t.Fatal(err)
	}
	under, second, image, err := handlerFlags.Load()
	if err != nil {
		t.Fatal(err)
	}
	if second != nil {
		t.Fatal("the rounds are played with one handler: name one in --handler")
	}
	opts := session.Options{
		Handler: under, HandlerImage: image, Set: scenarios.Fast, Out: *outFlag,
	}
	for _, r := range rounds {
		opts.Scenarios = append(opts.Scenarios, r.scenario)
	}
	session, err := systemFlags.Session(".", opts)
	if err != nil {
		t.Fatal(err)
	}
	specs(session, rounds)
	RegisterFailHandler(Fail)
	RunSpecs(t, "spotdrill chaos")
}

func specs(s *session.Session, rounds []round) {
	BeforeSuite(func(ctx SpecContext) { Expect(s.SetUp(ctx)).To(Succeed()) }, NodeTimeout(session.SetUpTimeout))
	BeforeEach(func() { fmt.Fprintln(os.Stderr) }) // the console does not go on in the line of Ginkgo's dots
	AfterSuite(func(ctx SpecContext) { Expect(s.Finish(ctx)).To(Succeed()) }, NodeTimeout(session.FinishTimeout))
	var drills []TableEntry
	for _, r := range rounds {
		drills = append(drills, Entry(r.scenario.Name, Label(r.labels()...), r.scenario))
	}
	DescribeTable("Handler "+s.Handler.Name+" keeps", Ordered, ContinueOnFailure, func(ctx SpecContext, scenario scenarios.Scenario) {
		entry, err := s.Drill(ctx, scenario)
		if errors.Is(err, session.ErrOver) {
			AbortSuite(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(entry.Outcome).To(Equal(verdict.Pass), "see the findings above, and the reports")
	}, drills)
}
