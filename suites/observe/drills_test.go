package observe

import (
	"fmt"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/history"
)

// draining are the arguments of the drill that drains the first worker.
func (f *foreign) draining(args ...string) []string {
	return f.drilling(append([]string{"node-drained", "--node", worker}, args...)...)
}

// drills change the cluster, with consent. Where a verdict depends on the machine, its exit code may
// also be 1.
func drills(f *foreign) {
	BeforeAll(func(ctx SpecContext) {
		f.grant(ctx, "live", "--print-rbac", "--subject", "user:spotdrill", "--allow", "evict-coredns,drain,notice")
	}, NodeTimeout(specTimeout))

	It("by a plan, which without consent changes nothing", func(ctx SpecContext) {
		plan := f.play(ctx, f.drilling("coredns-evicted")...)
		Expect(plan).To(gexec.Exit(0))
		Expect(plan.printed()).To(And(ContainSubstring("What keeps it safe"), ContainSubstring("--allow evict-coredns plays it")))
		other := f.play(ctx, f.draining("--allow", "evict-coredns")...)
		Expect(other).To(gexec.Exit(64))
		Expect(other.printed()).To(ContainSubstring("it needs --allow drain"))
	}, SpecTimeout(specTimeout))

	It("by an eviction of a CoreDNS pod", func(ctx SpecContext) {
		Expect(f.play(ctx, f.drilling("coredns-evicted", "--allow", "evict-coredns")...).ExitCode()).To(BeElementOf(0, 1))
		Expect(f.recorded()).To(ContainElement(HaveField("Kind", history.DNSDisrupted)))
	}, SpecTimeout(specTimeout))

	It("by a drain, and the node is put back", func(ctx SpecContext) {
		Expect(f.play(ctx, f.draining("--allow", "drain")...).ExitCode()).To(BeElementOf(0, 1))
		Expect(f.recorded()).To(ContainElements(HaveField("Kind", history.OperatorActed), HaveField("Kind", history.Restored)))
		Expect(f.cordoned(ctx, worker)).To(BeFalse())
	}, SpecTimeout(specTimeout))

	It("but not if both CoreDNS pods are on the node", func(ctx SpecContext) {
		f.kubectl(ctx, "cordon", worker2)
		f.kubectl(ctx, "-n", "kube-system", "delete", "pods", "-l", "k8s-app=kube-dns")
		f.kubectl(ctx, "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=90s")
		f.kubectl(ctx, "uncordon", worker2)
		refused := f.play(ctx, f.draining("--allow", "drain")...)
		Expect(refused).To(gexec.Exit(64))
		Expect(refused.printed()).To(ContainSubstring("CoreDNS"))
	}, SpecTimeout(specTimeout))

	It("but not if a PodDisruptionBudget forbids the eviction", func(ctx SpecContext) {
		f.kubectl(ctx, "-n", "kube-system", "create", "poddisruptionbudget", "all", "--selector=k8s-app=kube-dns", "--min-available=2")
		DeferCleanup(func(ctx SpecContext) { f.kubectl(ctx, "-n", "kube-system", "delete", "poddisruptionbudget", "all") })
		Eventually(ctx, func(ctx SpecContext) (int32, error) {
			budget, err := f.admin.PolicyV1().PodDisruptionBudgets("kube-system").Get(ctx, "all", metav1.GetOptions{})
			if err != nil {
				return 0, err
			}
			return budget.Status.ExpectedPods, nil
		}).WithTimeout(30 * time.Second).WithPolling(time.Second).Should(BeEquivalentTo(2))
		refused := f.play(ctx, f.drilling("coredns-evicted", "--allow", "evict-coredns")...)
		Expect(refused).To(gexec.Exit(64))
		Expect(refused.printed()).To(ContainSubstring("kube-system/all"))
	}, SpecTimeout(specTimeout))

	It("but not if nothing would create a pod again", func(ctx SpecContext) {
		f.bare(ctx, 40*time.Second)
		refused := f.play(ctx, f.draining("--allow", "drain")...)
		Expect(refused).To(gexec.Exit(64))
		Expect(refused.printed()).To(ContainSubstring("default/bare"))
	}, SpecTimeout(specTimeout))

	It("and put back by restore if the drill is killed", func(ctx SpecContext) {
		f.bare(ctx, 40*time.Second)
		drill := f.start(f.draining("--allow", "drain", "--force")...)
		f.awaitCordon(ctx, drill, worker)
		drill.Kill()
		drill.end(ctx)
		listed := f.play(ctx, "restore", "--list")
		Expect(listed).To(gexec.Exit(0))
		Expect(listed.printed()).To(ContainSubstring("drain of node " + worker))
		refused := f.play(ctx, f.draining("--allow", "drain", "--force")...)
		Expect(refused).To(gexec.Exit(64))
		Expect(refused.printed()).To(ContainSubstring("a drill was not put back: drain of node " + worker))
		Expect(f.play(ctx, "restore")).To(gexec.Exit(0))
		Expect(f.cordoned(ctx, worker)).To(BeFalse())
		again := f.play(ctx, "restore")
		Expect(again).To(gexec.Exit(0))
		Expect(again.printed()).To(ContainSubstring("there is nothing to put back"))
		f.gone(ctx)
	}, SpecTimeout(specTimeout))

	It("and put back by the cluster's annotations if the journal is lost", func(ctx SpecContext) {
		f.bare(ctx, 40*time.Second)
		journal := GinkgoT().TempDir()
		drill := f.start(f.draining("--allow", "drain", "--force", "--journal", journal)...)
		f.awaitCordon(ctx, drill, worker)
		second := f.play(ctx, f.drilling("coredns-evicted", "--allow", "evict-coredns", "--journal", GinkgoT().TempDir())...)
		Expect(second).To(gexec.Exit(64))
		drill.Kill()
		drill.end(ctx)
		Expect(os.RemoveAll(journal)).To(Succeed())
		Expect(f.play(ctx, "restore", "--journal", GinkgoT().TempDir(), "--kubeconfig", f.client(), "--context", "theirs")).To(gexec.Exit(0))
		Expect(f.cordoned(ctx, worker)).To(BeFalse())
		f.gone(ctx)
	}, SpecTimeout(specTimeout))

	It("but not a cordon that somebody else has made since", func(ctx SpecContext) {
		f.bare(ctx, 40*time.Second)
		drill := f.start(f.draining("--allow", "drain", "--force")...)
		f.awaitCordon(ctx, drill, worker)
		drill.Kill()
		drill.end(ctx)
		f.kubectl(ctx, "uncordon", worker)
		f.kubectl(ctx, "cordon", worker)
		DeferCleanup(func(ctx SpecContext) { f.kubectl(ctx, "uncordon", worker) })
		Expect(f.play(ctx, "restore")).To(gexec.Exit(0))
		Expect(f.cordoned(ctx, worker)).To(BeTrue())
		f.gone(ctx)
	}, SpecTimeout(specTimeout))

	It("and put back if too many queries are lost", func(ctx SpecContext) {
		f.bare(ctx, 2*time.Minute)
		drill := f.start(f.draining("--allow", "drain", "--force", "--abort-lost", "20")...)
		f.awaitCordon(ctx, drill, worker)
		DeferCleanup(func(ctx SpecContext) { f.scaleDNS(ctx, 2) })
		f.scaleDNS(ctx, 0)
		drill.end(ctx)
		Expect(drill.ExitCode()).NotTo(BeZero())
		Expect(drill.printed()).To(ContainSubstring("more queries were lost than --abort-lost allows"))
		Expect(f.cordoned(ctx, worker)).To(BeFalse())
	}, SpecTimeout(specTimeout))
}

func (f *foreign) scaleDNS(ctx SpecContext, replicas int) {
	GinkgoHelper()
	f.kubectl(ctx, "-n", "kube-system", "scale", "deployment", "coredns", fmt.Sprintf("--replicas=%d", replicas))
}

// bare runs a pod on the first worker that nothing creates again, and that ends only when its grace
// period is over.
func (f *foreign) bare(ctx SpecContext, grace time.Duration) {
	GinkgoHelper()
	overrides := fmt.Sprintf(`{"spec":{"nodeName":%q,"terminationGracePeriodSeconds":%.0f}}`, worker, grace.Seconds())
	f.kubectl(ctx, "run", "bare", "--image="+proberImage, "--overrides="+overrides, "--command", "--", "/spotdrill", "workload", "--deaf")
	DeferCleanup(func(ctx SpecContext) {
		f.kubectl(ctx, "delete", "pod", "bare", "--ignore-not-found", "--grace-period=0", "--force")
	})
	f.kubectl(ctx, "wait", "--for=condition=Ready", "pod/bare", "--timeout=60s")
}
