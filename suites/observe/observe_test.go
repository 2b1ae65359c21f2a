// Package observe checks spotdrill in a cluster that it did not make: it observes and drills a kind
// cluster with other names and networks, as a client that has only the printed rights.
package observe

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/suites/flags"
)

const (
	setUpTimeout = 25 * time.Minute // a CoreDNS may have to be built
	specTimeout  = 8 * time.Minute
)

var (
	drillFlag  = flags.AddDrill()
	binaryFlag = flags.AddBinary()
	keepFlag   = flag.Bool("keep", false, "keep the cluster and the files of the run")
)

func TestSpecs(t *testing.T) {
	drillFlag.SkipUnless(t, "observe-test")
	specs()
	RegisterFailHandler(Fail)
	RunSpecs(t, "spotdrill in a cluster of others")
}

func specs() {
	Describe("A cluster that spotdrill did not make", Ordered, ContinueOnFailure, func() {
		f := new(foreign)
		BeforeAll(func(ctx SpecContext) { setUp(ctx, f) }, NodeTimeout(setUpTimeout))
		BeforeEach(func(ctx SpecContext) { f.spreadDNS(ctx) }, NodeTimeout(specTimeout))
		AfterEach(func(ctx SpecContext) {
			if f.admin != nil { // the cluster exists
				Expect(f.left(ctx)).To(BeEmpty(), "what is left of an observation")
			}
		}, NodeTimeout(specTimeout))
		Context("is observed", func() { observations(f) })
		Context("is observed by a client that ends early", func() { clients(f) })
		Context("is drilled", Ordered, func() { drills(f) })
		Context("has a queue", Ordered, func() { notices(f) })
		Context("is not as it should be", func() { conditions(f) })
	})
}

// setUp creates the cluster.
func setUp(ctx SpecContext, f *foreign) {
	folder, err := os.MkdirTemp("", "spotdrill-observe-")
	Expect(err).NotTo(HaveOccurred())
	prepared, nodes, err := prepare(ctx, folder, *binaryFlag)
	Expect(err).NotTo(HaveOccurred())
	*f = *prepared
	DeferCleanup(func() {
		if !*keepFlag {
			Expect(f.delete()).To(Succeed())
			Expect(os.RemoveAll(folder)).To(Succeed())
		}
	})
	Expect(f.create(nodes)).To(Succeed())
	var peers []peer
	Eventually(ctx, func() (err error) { peers, err = f.peers(ctx); return err }).WithTimeout(time.Minute).WithPolling(time.Second).Should(Succeed())
	Expect(f.wire(ctx, peers)).To(Succeed())
	Expect(f.loadImages(ctx)).To(Succeed())
	f.kubectl(ctx, "-n", "kube-system", "set", "image", "deployment/coredns", "coredns="+f.coreDNS)
	f.kubectl(ctx, "-n", "kube-system", "patch", "deployment", "coredns", "--type=json", "-p", spread)
	f.kubectl(ctx, "wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s")
	Expect(f.writeKubectl()).To(Succeed())
	Expect(f.writeClient(ctx)).To(Succeed())
	f.grant(ctx, "observe", "--print-rbac", "--subject", "user:spotdrill")
}

// observation is a call of spotdrill observe, what it prints, and what it records.
type observation struct {
	args     []string
	exit     int
	undo     bool // the rollout of CoreDNS afterwards
	prints   []string
	recorded []history.Kind
}

func observations(f *foreign) {
	DescribeTable("while",
		func(ctx SpecContext, o observation) {
			if o.undo {
				DeferCleanup(func(ctx SpecContext) {
					f.kubectl(ctx, "-n", "kube-system", "rollout", "undo", "deployment/coredns")
					f.kubectl(ctx, "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=120s")
				})
			}
			c := f.play(ctx, f.observing(o.args...)...)
			Expect(c).To(gexec.Exit(o.exit))
			for _, text := range o.prints {
				Expect(c.printed()).To(ContainSubstring(text))
			}
			for _, kind := range o.recorded {
				Expect(f.recorded()).To(ContainElement(HaveField("Kind", kind)))
			}
		},
		Entry("CoreDNS is rolled out again by a command that does not wait: the record goes on to the end of the last pod", SpecTimeout(specTimeout), observation{
			args:     []string{"--", "kubectl", "-n", "kube-system", "rollout", "restart", "deployment", "coredns"},
			prints:   []string{"settled: pass: all was over at", "1 passed, 0 failed"},
			recorded: []history.Kind{history.RolloutProgressing, history.EndpointTerminating, history.EndpointGone},
		}),
		Entry("CoreDNS is rolled out to an image that does not exist: what is not over is unknown, by name", SpecTimeout(specTimeout), observation{
			args:   while("kubectl -n kube-system set image deployment/coredns coredns=localhost/no-such-image:1", "--settle-limit", "20s"),
			exit:   2,
			prints: []string{"settled: not over at the end of the record: ", "the rollout of Deployment/kube-system/coredns is not complete"},
			undo:   true,
		}),
		Entry("CoreDNS is rolled out again", SpecTimeout(specTimeout), observation{
			args:     while("kubectl -n kube-system rollout restart deployment/coredns && kubectl -n kube-system rollout status deployment/coredns"),
			prints:   []string{"3 probers, 50 queries/s each: adds", "1 passed, 0 failed"},
			recorded: []history.Kind{history.EndpointTerminating},
		}),
		Entry("a node is drained by hand, to the end of its last pod", SpecTimeout(specTimeout), observation{
			args:     while("kubectl drain " + worker + " --ignore-daemonsets --delete-emptydir-data && sleep 5 && kubectl uncordon " + worker),
			prints:   []string{"1 passed, 0 failed"},
			recorded: []history.Kind{history.NodeCordoned},
		}),
		Entry("the API server is restarted, as in an upgrade of the control plane", SpecTimeout(specTimeout), observation{
			args:     while("$ENGINE exec "+controlPlane+" pkill -x kube-apiserver && sleep 30", "--max-lost", "0"),
			prints:   []string{"and its record went on"},
			recorded: []history.Kind{history.ProberResumed},
		}),
		Entry("every CoreDNS pod is killed, which the gate does not allow", SpecTimeout(specTimeout), observation{
			args:   while(killDNS, "--max-lost", "0", "--slo", "100"),
			exit:   1,
			prints: []string{"dns lost (all): fail", "asked while the service had no endpoint"},
		}),
		Entry("a command fails", SpecTimeout(specTimeout), observation{args: while("exit 3"), exit: 1, prints: []string{"the command failed"}}),
	)

	It("with several probers on each node", func(ctx SpecContext) {
		c := f.play(ctx, f.observing("--probers", "12", "--rate", "20", "--for", "10s")...)
		Expect(c).To(gexec.Exit(0))
		Expect(c.printed()).To(ContainSubstring("12 probers, 20 queries/s each"))
		Expect(f.recorded()).To(ContainElement(HaveField("Node", HaveSuffix("#4"))))
	}, SpecTimeout(specTimeout))

	It("with an application", func(ctx SpecContext) {
		f.kubectl(ctx, "create", "deployment", "web", "--image="+proberImage, "--", "/spotdrill", "workload", "--http", ":8080")
		DeferCleanup(func(ctx SpecContext) { f.kubectl(ctx, "delete", "service,deployment", "web") })
		f.kubectl(ctx, "expose", "deployment", "web", "--port=80", "--target-port=8080")
		f.kubectl(ctx, "rollout", "status", "deployment/web", "--timeout=60s")
		address := f.kubectl(ctx, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
		f.grant(ctx, "observe", "--print-rbac", "--subject", "user:spotdrill", "--application", address+":80/")
		c := f.play(ctx, f.observing("--application", address+":80/", "--max-lost", "0", "--for", "10s")...)
		Expect(c).To(gexec.Exit(0))
		Expect(c.printed()).To(ContainSubstring("application lost (all): pass"))
	}, SpecTimeout(specTimeout))
}

// killDNS is a command that ends every CoreDNS pod at once.
const killDNS = "kubectl -n kube-system delete pods -l k8s-app=kube-dns --grace-period=0 --force"

// while are the arguments to observe a shell's command.
func while(command string, args ...string) []string {
	return append(args, "--", "sh", "-c", command)
}

// clients are observations whose client ends before they do.
func clients(f *foreign) {
	// begun starts an observation and waits for its beginning.
	begun := func(ctx SpecContext) call {
		GinkgoHelper()
		c := f.start(f.observing("--for", "10m")...)
		c.awaits(ctx, "the record is in")
		return c
	}

	It("and answers nobody else's requests; when it is killed, everything is removed", func(ctx SpecContext) {
		c := begun(ctx)
		prober := f.kubectl(ctx, "-n", namespace, "get", "pods", "-l", "app=prober", "-o", "jsonpath={.items[0].status.podIP}")
		for path, answer := range map[string]string{"healthz": "200", "resolver": "403"} { // a kubelet has no token
			Expect(f.engine.Exec(ctx, worker, nil, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://"+prober+":8080/"+path)).
				To(Equal(answer), "the answer of a prober to a stranger who requests "+path)
		}
		c.Kill()
		c.end(ctx)
		killed := time.Now()
		Eventually(ctx, f.left).WithTimeout(time.Minute).WithPolling(time.Second).Should(BeEmpty())
		GinkgoWriter.Printf("all was removed %.0f s after the client was killed\n", time.Since(killed).Seconds())
		runs, err := filepath.Glob(filepath.Join(f.out(), "2*"))
		Expect(err).NotTo(HaveOccurred())
		Expect(runs).NotTo(BeEmpty())
		Expect(f.play(ctx, "judge", runs[len(runs)-1])).To(gexec.Exit(2))
		cleaned := f.play(ctx, "observe", "--kubeconfig", f.client(), "--context", "theirs", "--cleanup")
		Expect(cleaned).To(gexec.Exit(0))
		Expect(cleaned.printed()).To(ContainSubstring("nothing is left"))
	}, SpecTimeout(specTimeout))

	It("because it is interrupted", func(ctx SpecContext) {
		c := begun(ctx)
		time.Sleep(10 * time.Second)
		c.Interrupt()
		c.end(ctx)
		Expect(c).To(gexec.Exit(2))
		Expect(c.printed()).To(ContainSubstring("interrupted before its end"))
	}, SpecTimeout(specTimeout))
}
