package observe

import (
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"

	"github.com/spotdrill/spotdrill/framework/history"
)

// cacheAddress is that of a NodeLocal DNSCache.
const cacheAddress = "169.254.20.10"

// cache is a CoreDNS on a node that stands for NodeLocal DNSCache: it has its address, but not its
// interface and rules. It needs the cluster's DNS service, the node and the image.
const cache = `
apiVersion: v1
kind: ConfigMap
metadata: {name: cache, namespace: kube-system}
data:
  Corefile: |
    .:53 {
      forward . %s
    }
---
apiVersion: v1
kind: Pod
metadata: {name: cache, namespace: kube-system}
spec:
  hostNetwork: true
  nodeName: %s
  terminationGracePeriodSeconds: 1
  securityContext: {runAsUser: 0} # for port 53 in the node's network
  containers:
    - {name: coredns, image: "%s", args: [-conf, /etc/coredns/Corefile], readinessProbe: {tcpSocket: {host: ` + cacheAddress + `, port: 53}, periodSeconds: 1}, volumeMounts: [{name: conf, mountPath: /etc/coredns}]}
  volumes: [{name: conf, configMap: {name: cache}}]
`

// conditions are clusters that differ from most: with a cache, with conntrack, with broken DNS.
func conditions(f *foreign) {
	It("with a cache on a node, as NodeLocal DNSCache is, which the report names", func(ctx SpecContext) {
		f.on(ctx, worker, "ip", "addr", "add", cacheAddress+"/32", "dev", "lo")
		DeferCleanup(func(ctx SpecContext) { f.on(ctx, worker, "ip", "addr", "del", cacheAddress+"/32", "dev", "lo") })
		dns := f.kubectl(ctx, "-n", "kube-system", "get", "service", "kube-dns", "-o", "jsonpath={.spec.clusterIP}")
		f.kubectlWith(ctx, fmt.Sprintf(cache, dns, worker, f.coreDNS), "apply", "-f", "-")
		DeferCleanup(func(ctx SpecContext) { f.kubectl(ctx, "-n", "kube-system", "delete", "pod/cache", "configmap/cache") })
		f.kubectl(ctx, "-n", "kube-system", "wait", "--for=condition=Ready", "pod/cache", "--timeout=60s")
		Expect(f.play(ctx, f.observing("--for", "10s")...)).To(gexec.Exit(0))
		report, err := os.ReadFile(filepath.Join(f.out(), "latest", "report.yaml"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(report)).To(ContainSubstring("1 of 3 probers query node-local-dns at"))
	}, SpecTimeout(specTimeout))

	It("with --conntrack, whose rights are not granted at first, what is lost has a cause", func(ctx SpecContext) {
		refused := f.play(ctx, f.observing("--conntrack", "--for", "10s")...) // the namespace is restricted
		Expect(refused).To(gexec.Exit(70))
		Expect(refused.printed()).To(ContainSubstring("refuses --conntrack"))
		Expect(f.left(ctx)).To(BeEmpty())
		f.grant(ctx, "observe", "--print-rbac", "--subject", "user:spotdrill", "--conntrack")
		c := f.play(ctx, f.observing(while(killDNS, "--conntrack", "--max-lost", "0")...)...)
		Expect(c).To(gexec.Exit(1))
		Expect(c.printed()).To(ContainSubstring("as --conntrack asked"))
		Expect(c.printed()).To(MatchRegexp(`losses explained: pass: 0 of [1-9][0-9]* lost without a cause`))
		Expect(f.recorded()).To(ContainElement(HaveField("Kind", history.FlowsRecorded)))
	}, SpecTimeout(specTimeout))

	It("with DNS that is broken before anything begins: the command does not run", func(ctx SpecContext) {
		drop := []string{"-p", "udp", "--dport", "53", "-j", "DROP"}
		for _, node := range []string{controlPlane, worker, worker2} {
			f.on(ctx, node, append([]string{"iptables", "-w", "-I", "FORWARD"}, drop...)...)
			DeferCleanup(func(ctx SpecContext) {
				f.on(ctx, node, append([]string{"iptables", "-w", "-D", "FORWARD"}, drop...)...)
			})
		}
		ran := filepath.Join(f.folder, "ran")
		c := f.play(ctx, f.observing(while("touch "+ran)...)...)
		Expect(c).To(gexec.Exit(2))
		Expect(c.printed()).To(ContainSubstring("broken before anything began"))
		Expect(ran).NotTo(BeAnExistingFile())
	}, SpecTimeout(specTimeout))
}
