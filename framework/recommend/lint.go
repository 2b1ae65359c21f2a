package recommend

import (
	"fmt"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
)

// The times that lameduck is compared with.
const (
	// ShutdownTime is how long CoreDNS takes at most to exit after lameduck: its DNS
	// servers wait up to 5 s for queries in flight, and one of the HTTP servers of
	// health, ready and prometheus up to 5 s for a hanging request. Usually both take
	// milliseconds.
	ShutdownTime = 10 * time.Second
	// ProxySync is how long kube-proxy still sends queries to a pod that is no longer
	// Ready: its minSyncPeriod, 1 s by default, and as long again until it hears of the
	// change.
	ProxySync = 2 * time.Second
)

// lintEnd checks what a terminating pod does.
func (d DNS) lintEnd(c coredns.Corefile, s coredns.Settings) []Finding {
	proposed := d.propose(s)
	switch {
	case !c.Health:
		return []Finding{breaks("health-plugin", "the Corefile has no health plugin").fixedBy(proposed.Lameduck.D()).unlessIn(c.Imports)}
	case s.Lameduck == 0:
		return []Finding{breaks("lameduck", "the health plugin has no lameduck, or a lameduck of 0 s").fixedBy(proposed.Lameduck.D()).unlessIn(c.Imports)}
	}
	var found []Finding
	if end := s.Lameduck.D() + ShutdownTime; end >= s.GracePeriod.D() {
		found = append(found, breaks("lameduck-within-grace-period", "lameduck %s and up to %s for CoreDNS to exit, with terminationGracePeriodSeconds %.0f",
			s.Lameduck.D(), ShutdownTime, s.GracePeriod.D().Seconds()).fixedBy(end.Seconds()))
	}
	if s.Lameduck.D() < s.Readiness.Unready()+ProxySync {
		found = append(found, breaks("lameduck-outlasts-readiness",
			"lameduck %s, but a terminating pod stays Ready for up to %s (%s x %d) and in kube-proxy's rules for up to %s more",
			s.Lameduck.D(), s.Readiness.Unready(), s.Readiness.Period.D(), s.Readiness.FailureThreshold, ProxySync).
			fixedBy(proposed.Lameduck.D(), proposed.Readiness.Period.D(), proposed.Readiness.FailureThreshold))
	}
	return found
}

// lintReadiness checks whether the readiness probe of a terminating pod fails.
func (d DNS) lintReadiness(c coredns.Corefile) []Finding {
	var found []Finding
	if !c.Ready {
		found = append(found, breaks("ready-plugin", "the Corefile has no ready plugin").unlessIn(c.Imports))
	}
	switch probe := d.readiness(); {
	case probe == nil:
		found = append(found, breaks("readiness-probe", "the pods have no readiness probe"))
	case probe.HTTPGet == nil:
		found = append(found, breaks("readiness-asks-ready", "the readiness probe does not use HTTP"))
	case probe.HTTPGet.Path != "/ready":
		found = append(found, breaks("readiness-asks-ready", "the readiness probe uses %s", probe.HTTPGet.Path))
	}
	return found
}

// lintReplicas checks whether DNS survives the loss of a node, or of all spot nodes.
func (d DNS) lintReplicas(s coredns.Settings) []Finding {
	var found []Finding
	if s.Replicas < 2 {
		found = append(found, breaks("replicas", "replicas %d", s.Replicas))
	}
	var unlabelled []string
	spot := 0
	for _, p := range d.Pods {
		switch p.Capacity {
		case Spot:
			spot++
		case UnknownCapacity:
			unlabelled = append(unlabelled, p.Node)
		}
	}
	const rule = "not-all-on-spot"
	switch {
	case len(d.Pods) == 0:
		f := unknown(rule, "the Deployment has no pods on nodes")
		f.Fix = "find out why: `kubectl -n " + d.Deployment.Namespace + " describe deployment " + d.Deployment.Name + "`"
		found = append(found, f)
	case spot == len(d.Pods):
		found = append(found, breaks(rule, "all %d pods are on spot nodes: %s", spot, places(d.Pods)))
	case spot+len(unlabelled) == len(d.Pods):
		f := unknown(rule, "no label shows the capacity of %s", strings.Join(unlabelled, ", "))
		f.Fix = "label the nodes with " + history.CapacityLabel + ", or ensure that one of them is not spot"
		found = append(found, f)
	}
	return found
}

// places lists which pod is on which node.
func places(pods []Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, fmt.Sprintf("%s on %s", p.Name, p.Node))
	}
	return strings.Join(out, ", ")
}
