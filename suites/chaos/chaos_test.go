// Package chaos holds a handler under test to what no single clause asks: several
// things go wrong at once, in ways that are drawn from a seed. What is played is a
// scenario like any other, and goes the same way to its verdict and its report.
package chaos

import (
	"errors"
	"flag"
	"fmt"
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

// setUpTimeout is long enough for images to be built.
const setUpTimeout = 40 * time.Minute

// The flags of the suite; `make chaos` sets them, in the folder of go.mod, from
// which paths are meant.
var (
	drillFlag     = flag.Bool("drill", false, "really drill: go test ./... must not")
	seedFlag      = flag.Uint64("seed", 0, "what the rounds are drawn from; 0: from the time")
	roundsFlag    = flag.Int("rounds", 5, "how many rounds are played")
	handlerFlag   = flag.String("handler", "builtin", "the handler under test: "+strings.Join(handler.Names(), ", ")+", or a path to a description")
	imageFlag     = flag.String("handler-image", "", "an image that the container engine holds, instead of the description's")
	clusterFlag   = flag.String("cluster", run.DefaultCluster, "the name of the kind cluster")
	proxyModeFlag = flag.String("proxy-mode", history.IPTables, "kube-proxy's mode: "+strings.Join(history.ProxyModes(), ", "))
	binaryFlag    = flag.String("binary", "bin/spotdrill", "the static spotdrill binary that runs in the cluster")
	outFlag       = flag.String("out", "reports/out/chaos", "the folder that runs are written to")
)

func TestChaos(t *testing.T) {
	if !*drillFlag {
		t.Skip("it drills a real system: run `make chaos`")
	}
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().Unix())
	}
	fmt.Fprintf(os.Stderr, "seed %d: make chaos SEED=%d plays the same rounds\n", seed, seed)
	var rounds []scenarios.Scenario
	for n := range *roundsFlag {
		s, err := read(compose(seed, n+1))
		if err != nil {
			t.Fatal(err)
		}
		rounds = append(rounds, s)
	}
	under, err := handler.Load(*handlerFlag)
	if err != nil {
		t.Fatal(err)
	}
	session, err := session.New(session.Options{
		Handler: under, HandlerImage: *imageFlag, Set: scenarios.Fast, Scenarios: rounds, Out: *outFlag, Console: os.Stderr,
		System: run.Options{Cluster: *clusterFlag, ProxyMode: *proxyModeFlag, Source: ".", Binary: *binaryFlag},
	})
	if err != nil {
		t.Fatal(err)
	}
	specs(session)
	RegisterFailHandler(Fail)
	RunSpecs(t, "spotdrill chaos")
}

func specs(session *session.Session) {
	Describe("Handler "+session.Handler.Name, Ordered, ContinueOnFailure, func() {
		BeforeAll(func(ctx SpecContext) { Expect(session.SetUp(ctx)).To(Succeed()) }, NodeTimeout(setUpTimeout))
		AfterAll(func(ctx SpecContext) { Expect(session.Finish(ctx)).To(Succeed()) }, NodeTimeout(session.FinishTimeout))
		for _, round := range session.Scenarios {
			It(round.Name, func(ctx SpecContext) {
				entry, err := session.Drill(ctx, round)
				if errors.Is(err, session.ErrOver) {
					AbortSuite(err.Error())
				}
				Expect(err).NotTo(HaveOccurred())
				Expect(entry.Outcome).To(Equal(verdict.Pass), "the findings stand above, and in the reports")
			})
		}
	})
}
