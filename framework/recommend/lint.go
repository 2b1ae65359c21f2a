package recommend

import (
	"fmt"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

// Finding is a rule that a cluster's DNS does not keep, or that it cannot be held
// to.
type Finding struct {
	Rule string `json:"rule"`
	// Unknown is true where the rule could not be held to what was read.
	Unknown bool   `json:"unknown,omitempty"`
	Got     string `json:"got"`    // what was read
	Why     string `json:"why"`    // what follows from it
	Source  string `json:"source"` // where the rule comes from
	Fix     string `json:"fix"`
}

// The times that a lameduck is held against.
const (
	// ShutdownTime is how long CoreDNS takes at most after lameduck: its DNS servers
	// wait 5 s for queries in flight, and one of the HTTP servers of health, ready and
	// prometheus waits 5 s for a request that hangs. Usually both take milliseconds.
	ShutdownTime = 10 * time.Second
	// ProxySync is how long after a pod is no longer Ready kube-proxy still sends
	// queries to it: its minSyncPeriod, 1 s unless set, and as long for the way of
	// the change there.
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

// lint holds a cluster's DNS to the rules, and returns those that it does not keep,
// the worst first.
func (d DNS) lint(c coredns.Corefile, s Settings) []Finding {
	var found []Finding
	found = append(found, lintEnd(c, s)...)
	found = append(found, d.lintReadiness(c)...)
	found = append(found, d.lintReplicas(s)...)
	return append(found, d.lintBudgets(s)...)
}

// lintEnd asks what a pod does from when it is told to end.
func lintEnd(c coredns.Corefile, s Settings) []Finding {
	if !c.Health {
		f := Finding{
			Rule: "health-plugin", Got: "the Corefile has no health plugin", Source: sourceHealth,
			Why: "without it there is no lameduck: a pod that is told to end stops answering at once, while kube-proxy still sends it queries",
			Fix: fmt.Sprintf("add `health { lameduck %s }` to the server block of the cluster's zone; nothing is changed for you, since nothing tells which block that is", propose(s).Lameduck),
		}
		return []Finding{f.unlessIn(c.Imports)}
	}
	if s.Lameduck == 0 {
		f := Finding{
			Rule: "lameduck", Got: "the health plugin has no lameduck, or one of 0 s", Source: sourceHealth,
			Why: "a pod that is told to end stops answering at once, while kube-proxy still sends it queries",
			Fix: fmt.Sprintf("lameduck %s", propose(s).Lameduck),
		}
		return []Finding{f.unlessIn(c.Imports)}
	}
	var found []Finding
	if s.Lameduck+ShutdownTime >= s.GracePeriod {
		found = append(found, Finding{
			Rule: "lameduck-within-grace-period", Source: sourceGrace,
			Got: fmt.Sprintf("lameduck %s and up to %s for CoreDNS's own end, within terminationGracePeriodSeconds %.0f", s.Lameduck, ShutdownTime, s.GracePeriod.Seconds()),
			Why: "the kubelet kills a pod at the end of its grace period: what it was answering then is lost, and the kill may come while kube-proxy still sends it queries",
			Fix: fmt.Sprintf("terminationGracePeriodSeconds above %.0f, or a shorter lameduck", (s.Lameduck + ShutdownTime).Seconds()),
		})
	}
	if least := s.Unready() + ProxySync; s.Lameduck < least {
		p := propose(s)
		found = append(found, Finding{
			Rule: "lameduck-outlasts-readiness", Source: sourceProxy,
			Got: fmt.Sprintf("lameduck %s, and a pod that ends is Ready for up to %s (%s x %d), and in kube-proxy's rules for up to %s more", s.Lameduck, s.Unready(), s.ReadinessPeriod, s.FailureThreshold, ProxySync),
			Why: "kube-proxy keeps the connections of a pod that is going away to it until its readiness probe has failed: at its exit their queries are lost, for 0.2 to 0.7 s in drills with 5 s and 10 s x 3",
			Fix: fmt.Sprintf("lameduck %s with a readiness probe of %s x %d", p.Lameduck, p.ReadinessPeriod, p.FailureThreshold),
		})
	}
	return found
}

// lintReadiness asks whether the readiness probe fails when a pod is told to end.
func (d DNS) lintReadiness(c coredns.Corefile) []Finding {
	var found []Finding
	if !c.Ready {
		f := Finding{
			Rule: "ready-plugin", Got: "the Corefile has no ready plugin", Source: sourceReady,
			Why: "/ready is the one endpoint that says no as soon as a pod is told to end, and not yes before its zones are loaded",
			Fix: "add `ready` to the server block of the cluster's zone, before the readiness probe asks for /ready",
		}
		found = append(found, f.unlessIn(c.Imports))
	}
	probe := d.readiness()
	switch {
	case probe == nil:
		found = append(found, Finding{
			Rule: "readiness-probe", Got: "the pods have no readiness probe", Source: sourceReady,
			Why: "kube-proxy keeps sending queries of known connections to a pod that is going away, and new ones to a pod that has not loaded its zones",
			Fix: "a readiness probe on /ready, port 8181, where the Corefile has the ready plugin",
		})
	case probe.HTTPGet == nil || probe.HTTPGet.Path != "/ready":
		asks := "does not ask by HTTP"
		if probe.HTTPGet != nil {
			asks = "asks for " + probe.HTTPGet.Path
		}
		found = append(found, Finding{
			Rule: "readiness-asks-ready", Got: "the readiness probe " + asks, Source: sourceProbe,
			Why: "/health says yes until lameduck is over: the pod is Ready until it exits, and its connections stay with it",
			Fix: "a readiness probe on /ready, port 8181, where the Corefile has the ready plugin",
		})
	}
	return found
}

// lintReplicas asks whether one lost node can be all of DNS.
func (d DNS) lintReplicas(s Settings) []Finding {
	var found []Finding
	if s.Replicas < 2 {
		found = append(found, Finding{
			Rule: "replicas", Got: fmt.Sprintf("replicas %d", s.Replicas), Source: sourceReplicas,
			Why: "while the only pod is replaced nobody answers, whatever its lameduck",
			Fix: "at least 2 replicas, on nodes apart",
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
		Why: "spot instances of one kind are reclaimed together, with two minutes' notice: every replica may go at once",
		Fix: "a topologySpreadConstraint over the capacity label, or a node affinity that keeps one replica on demand",
	}
	switch {
	case len(d.Pods) == 0:
		f.Unknown, f.Got, f.Fix = true, "the Deployment has no pods on nodes", "look why: `kubectl -n "+d.Deployment.Namespace+" describe deployment "+d.Deployment.Name+"`"
	case spot == len(d.Pods):
		f.Got = fmt.Sprintf("all %d pods are on spot nodes: %s", spot, d.places())
	case spot+len(unknown) == len(d.Pods):
		f.Unknown, f.Got = true, "no label tells the capacity of "+strings.Join(unknown, ", ")
		f.Fix = "label nodes with karpenter.sh/capacity-type, or see to it that one of them is not spot"
	default:
		return found
	}
	return append(found, f)
}

// places tells which pod is where.
func (d DNS) places() string {
	var out []string
	for _, p := range d.Pods {
		out = append(out, fmt.Sprintf("%s on %s", p.Name, p.Node))
	}
	return strings.Join(out, ", ")
}

// unlessIn makes a finding of something missing an unknown where an imported file
// may hold it.
func (f Finding) unlessIn(imports []string) Finding {
	if len(imports) > 0 {
		f.Unknown = true
		f.Got += ", but it imports " + strings.Join(imports, ", ") + ", which only its pods can read"
	}
	return f
}
