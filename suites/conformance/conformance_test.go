// Package conformance holds a handler under test to the catalogue: one spec a
// scenario, on a real cluster.
package conformance

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2" //nolint:revive,staticcheck // Ginkgo specs read as they are meant to
	. "github.com/onsi/gomega"    //nolint:revive,staticcheck // so do Gomega's matchers

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/run"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// attempts is how often a drill is played whose control failed: what is still
// noise then stays Unknown, and red.
const attempts = 3

func TestConformance(t *testing.T) {
	set := scenarios.Set(*setFlag)
	chosen, err := scenarios.Select(set, names(*scenariosFlag))
	if err != nil {
		t.Fatal(err)
	}
	under, err := handler.Load(*handlerFlag)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkDeviations(under, chosen); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(*binaryFlag); err != nil {
		t.Fatalf("the static spotdrill binary is not at --binary=%s: run `make conformance`, or build it first: %v", *binaryFlag, err)
	}
	c := newConformance(under, set, chosen, run.Options{
		Cluster: *clusterFlag, ProxyMode: *proxyModeFlag, Source: root, Binary: *binaryFlag,
		Log: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
	}, *outFlag)
	c.specs()
	RegisterFailHandler(Fail)
	RunSpecs(t, "spotdrill conformance")
}

// The flags of the suite; `make conformance` sets them from SET, HANDLER, …
var (
	setFlag       = flag.String("set", "fast", "the set of scenarios: fast or full")
	handlerFlag   = flag.String("handler", "builtin", "the handler under test: "+strings.Join(handler.Names(), ", ")+", or a path to a description")
	imageFlag     = flag.String("handler-image", "", "an image that the container engine holds, instead of the description's")
	scenariosFlag = flag.String("scenarios", "", "names of scenarios, by comma, instead of a set")
	clusterFlag   = flag.String("cluster", run.DefaultCluster, "the name of the kind cluster")
	proxyModeFlag = flag.String("proxy-mode", "iptables", "kube-proxy's mode: iptables or nftables")
	binaryFlag    = flag.String("binary", "../../bin/spotdrill", "the static spotdrill binary that runs in the cluster")
	outFlag       = flag.String("out", "../../reports/out", "the folder that runs are written to")
)

func (c *conformance) specs() {
	Describe("Handler "+c.handler.Name, Ordered, ContinueOnFailure, func() {
		BeforeAll(c.setUp, NodeTimeout(setUpTimeout))
		AfterAll(c.finish, NodeTimeout(finishTimeout))
		for _, s := range c.scenarios {
			It(s.Name+": "+s.Title, func(ctx SpecContext) {
				if reason := c.notApplicable(s); reason != "" {
					c.skipped(s, reason)
					Skip(reason)
				}
				Expect(c.drill(ctx, s)).To(passed())
			})
		}
		It("self-check: a handler that does nothing fails "+idleScenario, func(ctx SpecContext) {
			if reason := c.noSelfCheck(); reason != "" {
				Skip(reason)
			}
			Expect(c.selfCheck(ctx).Outcome).To(Equal(verdict.Fail), "a harness that passes a handler which never acts proves nothing")
		})
	})
}
