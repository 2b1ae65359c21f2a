// Package conformance holds a handler under test to the catalogue: one spec a
// scenario, on a real cluster.
package conformance

import (
	"cmp"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2" //nolint:revive,staticcheck // Ginkgo specs read as they are meant to
	. "github.com/onsi/gomega"    //nolint:revive,staticcheck // so do Gomega's matchers

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/run"
	"github.com/spotdrill/spotdrill/framework/session"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Limits of the suite; a drill takes one to four minutes, and three attempts at
// the most.
const setUpTimeout = 40 * time.Minute // images may have to be built

func TestConformance(t *testing.T) {
	if !*drillFlag {
		t.Skip("it drills a real system: run `make conformance`")
	}
	set := scenarios.Set(*setFlag)
	chosen, err := scenarios.Select(set, names(*scenariosFlag))
	if err != nil {
		t.Fatal(err)
	}
	under, err := handler.Load(*handlerFlag)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(*binaryFlag); err != nil {
		t.Fatalf("the static spotdrill binary is not at --binary=%s: run `make conformance`, or build it first: %v", *binaryFlag, err)
	}
	more := 0
	if noSelfCheck(under, chosen) == "" {
		more = 1
	}
	session, err := session.New(session.Options{
		Handler: under, HandlerImage: *imageFlag, Set: set, Scenarios: chosen, Repeat: *repeatFlag, Out: *outFlag, Console: os.Stderr, More: more,
		System: run.Options{Cluster: *clusterFlag, ProxyMode: *proxyModeFlag, Source: ".", Binary: *binaryFlag},
	})
	if err != nil {
		t.Fatal(err)
	}
	suite{session}.specs()
	RegisterFailHandler(Fail)
	RunSpecs(t, "spotdrill conformance")
}

// The flags of the suite; `make conformance` sets them from SET, HANDLER, …, in the
// folder of go.mod, from which paths are meant.
var (
	drillFlag     = flag.Bool("drill", false, "really drill: go test ./... must not")
	setFlag       = flag.String("set", "fast", "the set of scenarios: fast or full")
	handlerFlag   = flag.String("handler", "builtin", "the handler under test: "+strings.Join(handler.Names(), ", ")+", or a path to a description")
	imageFlag     = flag.String("handler-image", "", "an image that the container engine holds, instead of the description's")
	scenariosFlag = flag.String("scenarios", "", "names of scenarios, by comma, instead of a set")
	repeatFlag    = flag.Int("repeat", 1, "how often each scenario is played")
	clusterFlag   = flag.String("cluster", run.DefaultCluster, "the name of the kind cluster")
	proxyModeFlag = flag.String("proxy-mode", history.IPTables, "kube-proxy's mode: "+strings.Join(history.ProxyModes(), ", "))
	binaryFlag    = flag.String("binary", "bin/spotdrill", "the static spotdrill binary that runs in the cluster")
	outFlag       = flag.String("out", "reports/out", "the folder that runs are written to")
)

func names(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

func (s suite) specs() {
	Describe("Handler "+s.Handler.Name, Ordered, ContinueOnFailure, func() {
		BeforeAll(func(ctx SpecContext) { Expect(s.SetUp(ctx)).To(Succeed()) }, NodeTimeout(setUpTimeout))
		AfterAll(func(ctx SpecContext) { Expect(s.Finish(ctx)).To(Succeed()) }, NodeTimeout(session.FinishTimeout))
		for _, scenario := range s.Scenarios {
			It(scenario.Name+": "+scenario.Title, func(ctx SpecContext) {
				result := s.drill(ctx, scenario)
				if result.Outcome == verdict.Skipped {
					Skip(result.Verdicts[0].Got)
				}
				Expect(result).To(passed())
			})
		}
		It("judges at least one scenario", func() {
			counts := s.Report().Summary
			Expect(counts.Skipped).To(BeNumerically("<", counts.Total), "nothing was judged: all were skipped")
		})
		It("self-check: a handler that does nothing fails "+idleScenario, func(ctx SpecContext) {
			if reason := cmp.Or(s.NoSystem(), noSelfCheck(s.Handler, s.Scenarios)); reason != "" {
				Skip(reason)
			}
			Expect(s.selfCheck(ctx).Outcome).To(Equal(verdict.Fail), "a harness that passes a handler which never acts proves nothing")
		})
	})
}
