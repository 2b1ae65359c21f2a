package recommend

import (
	"fmt"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

// Finding is a rule that a cluster's DNS or Karpenter breaks, or that cannot be evaluated for
// it.
type Finding struct {
	Rule string `json:"rule"`
	// Unknown is set if the rule could not be evaluated.
	Unknown bool   `json:"unknown,omitempty"`
	Got     string `json:"got"`    // what was read
	Why     string `json:"why"`    // what follows from it
	Source  string `json:"source"` // where the rule comes from
	Fix     string `json:"fix"`
	// Drill is the scenario that shows why the rule matters; empty if there is none.
	Drill string `json:"drill,omitempty"`
}

// Drills are the scenarios that show why a rule matters, by the rule.
func Drills() map[string]string {
	return map[string]string{
		"lameduck":                         "coredns-drained-lameduck-0s",
		"lameduck-outlasts-readiness":      "coredns-drained-lameduck-5s",
		"replicas":                         "coredns-all-deleted-at-once",
		"next-pod-starts":                  "coredns-corefile-that-cannot-be-read",
		"add-on-values-by-configuration":   "add-on-upgrade-overwrites-lameduck",
		"one-budget":                       "pod-under-two-budgets-is-reported-and-retried",
		"karpenter-interruption-queue":     "coredns-lost-without-queue",
		"karpenter-interruption-queue-key": "coredns-lost-without-queue",
		"karpenter-off-its-own-nodes":      "handler-drains-the-node-that-it-shares-with-dns",
		"dns-on-consolidated-nodes":        "two-nodes-that-become-one-take-all-of-dns",
		"dns-not-kept-at-a-notice":         "notice-drains-pods-not-to-be-disrupted",
	}
}

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

// Sources of the rules.
const (
	sourceHealth   = "https://coredns.io/plugins/health/"
	sourceReady    = "https://coredns.io/plugins/ready/"
	sourceGrace    = "https://github.com/aws/aws-eks-best-practices/issues/728"
	sourceProxy    = "https://github.com/kubernetes/kubernetes/issues/129617"
	sourceProbe    = "https://github.com/aws/containers-roadmap/issues/941"
	sourceReplicas = "https://kubernetes.io/docs/concepts/workloads/pods/disruptions/"
	sourceSpot     = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html"
	sourceBudget   = "https://kubernetes.io/docs/tasks/run-application/configure-pdb/"
)

// lint checks a cluster's DNS against the rules and returns the findings, the worst
// first.
func (d DNS) lint(c coredns.Corefile, s coredns.Settings) []Finding {
	var found []Finding
	found = append(found, d.lintEnd(c, s)...)
	found = append(found, d.lintReadiness(c)...)
	found = append(found, d.lintReplicas(s)...)
	found = append(found, d.lintSize(s)...)
	found = append(found, d.lintBudgets(s)...)
	found = append(found, d.lintAddOn()...)
	found = append(found, d.lintKarpenter()...)
	for i, shown := 0, Drills(); i < len(found); i++ {
		found[i].Drill = shown[found[i].Rule]
	}
	return found
}

// lintEnd checks what a terminating pod does.
func (d DNS) lintEnd(c coredns.Corefile, s coredns.Settings) []Finding {
	if !c.Health {
		f := Finding{
			Rule: "health-plugin", Got: "the Corefile has no health plugin", Source: sourceHealth,
			Why: "without it there is no lameduck: a terminating pod stops answering at once, while kube-proxy still sends it queries",
			Fix: fmt.Sprintf("add `health { lameduck %s }` to the server block of the cluster's zone; this is not in the patch, since that block cannot be identified reliably", d.propose(s).Lameduck.D()),
		}
		return []Finding{f.unlessIn(c.Imports)}
	}
	if s.Lameduck == 0 {
		f := Finding{
			Rule: "lameduck", Got: "the health plugin has no lameduck, or a lameduck of 0 s", Source: sourceHealth,
			Why: "a terminating pod stops answering at once, while kube-proxy still sends it queries",
			Fix: fmt.Sprintf("lameduck %s", d.propose(s).Lameduck.D()),
		}
		return []Finding{f.unlessIn(c.Imports)}
	}
	var found []Finding
	if s.Lameduck.D()+ShutdownTime >= s.GracePeriod.D() {
		found = append(found, Finding{
			Rule: "lameduck-within-grace-period", Source: sourceGrace,
			Got: fmt.Sprintf("lameduck %s and up to %s for CoreDNS to exit, with terminationGracePeriodSeconds %.0f", s.Lameduck.D(), ShutdownTime, s.GracePeriod.D().Seconds()),
			Why: "the kubelet kills a pod at the end of its grace period: queries that it has not answered are lost, and kube-proxy may still be sending it queries",
			Fix: fmt.Sprintf("terminationGracePeriodSeconds above %.0f, or a shorter lameduck", (s.Lameduck.D() + ShutdownTime).Seconds()),
		})
	}
	if least := s.Readiness.Unready() + ProxySync; s.Lameduck.D() < least {
		p := d.propose(s)
		found = append(found, Finding{
			Rule: "lameduck-outlasts-readiness", Source: sourceProxy,
			Got: fmt.Sprintf("lameduck %s, but a terminating pod stays Ready for up to %s (%s x %d) and in kube-proxy's rules for up to %s more",
				s.Lameduck.D(), s.Readiness.Unready(), s.Readiness.Period.D(), s.Readiness.FailureThreshold, ProxySync),
			Why: "kube-proxy sends existing connections to a terminating pod until its readiness probe has failed: when the pod exits first, their queries are lost, for 0.2 to 0.7 s in drills with 5 s and 10 s x 3",
			Fix: fmt.Sprintf("lameduck %s with a readiness probe of %s x %d", p.Lameduck.D(), p.Readiness.Period.D(), p.Readiness.FailureThreshold),
		})
	}
	return found
}

// lintReadiness checks whether the readiness probe of a terminating pod fails.
func (d DNS) lintReadiness(c coredns.Corefile) []Finding {
	var found []Finding
	if !c.Ready {
		f := Finding{
			Rule: "ready-plugin", Got: "the Corefile has no ready plugin", Source: sourceReady,
			Why: "/ready is the only endpoint that fails as soon as a pod terminates, and until its zones are loaded",
			Fix: "add `ready` to the server block of the cluster's zone, before the readiness probe uses /ready",
		}
		found = append(found, f.unlessIn(c.Imports))
	}
	probe := d.readiness()
	switch {
	case probe == nil:
		found = append(found, Finding{
			Rule: "readiness-probe", Got: "the pods have no readiness probe", Source: sourceReady,
			Why: "kube-proxy keeps sending existing connections to a terminating pod, and new ones to a pod that has not loaded its zones",
			Fix: "a readiness probe on /ready, port 8181, with the ready plugin in the Corefile",
		})
	case probe.HTTPGet == nil || probe.HTTPGet.Path != "/ready":
		asks := "does not use HTTP"
		if probe.HTTPGet != nil {
			asks = "uses " + probe.HTTPGet.Path
		}
		found = append(found, Finding{
			Rule: "readiness-asks-ready", Got: "the readiness probe " + asks, Source: sourceProbe,
			Why: "/health succeeds until lameduck is over: the pod stays Ready until it exits, and keeps its connections",
			Fix: "a readiness probe on /ready, port 8181, with the ready plugin in the Corefile",
		})
	}
	return found
}

// lintReplicas checks whether DNS survives the loss of a node, or of all spot nodes.
func (d DNS) lintReplicas(s coredns.Settings) []Finding {
	var found []Finding
	if s.Replicas < 2 {
		found = append(found, Finding{
			Rule: "replicas", Got: fmt.Sprintf("replicas %d", s.Replicas), Source: sourceReplicas,
			Why: "while the only pod is replaced, no query is answered, whatever its lameduck",
			Fix: "at least 2 replicas, on different nodes",
		})
	}
	var unknown []string
	spot := 0
	for _, p := range d.Pods {
		switch p.Capacity {
		case Spot:
			spot++
		case UnknownCapacity:
			unknown = append(unknown, p.Node)
		}
	}
	f := Finding{
		Rule: "not-all-on-spot", Source: sourceSpot,
		Why: "spot instances of one type are often reclaimed together, with two minutes' notice: all replicas can be lost at once",
		Fix: "a topologySpreadConstraint over the capacity label, or a node affinity that keeps one replica on an on-demand node",
	}
	switch {
	case len(d.Pods) == 0:
		f.Unknown, f.Got, f.Fix = true, "the Deployment has no pods on nodes", "find out why: `kubectl -n "+d.Deployment.Namespace+" describe deployment "+d.Deployment.Name+"`"
	case spot == len(d.Pods):
		f.Got = fmt.Sprintf("all %d pods are on spot nodes: %s", spot, places(d.Pods))
	case spot+len(unknown) == len(d.Pods):
		f.Unknown, f.Got = true, "no label shows the capacity of "+strings.Join(unknown, ", ")
		f.Fix = "label the nodes with karpenter.sh/capacity-type, or ensure that one of them is not spot"
	default:
		return found
	}
	return append(found, f)
}

// places lists which pod is on which node.
func places(pods []Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, fmt.Sprintf("%s on %s", p.Name, p.Node))
	}
	return strings.Join(out, ", ")
}

// unlessIn makes a finding that something is missing unknown if an imported file may
// contain it.
func (f Finding) unlessIn(imports []string) Finding {
	if len(imports) > 0 {
		f.Unknown = true
		f.Got += ", but it imports " + strings.Join(imports, ", ") + ", which only its pods can read"
	}
	return f
}
