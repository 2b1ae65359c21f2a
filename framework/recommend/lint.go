package recommend

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

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

// lintStart checks whether CoreDNS starts with its Corefile.
func (d DNS) lintStart(c coredns.Corefile) []Finding {
	switch {
	case d.CorefileUnread != "":
		return []Finding{unknown("corefile", "%s", d.CorefileUnread)}
	case c.Refused != "":
		return []Finding{breaks("next-pod-starts", "CoreDNS does not start with the Corefile of ConfigMap %s: %s", d.ConfigMap, c.Refused)}
	case c.Doubt != "":
		f := unknown("next-pod-starts", "whether CoreDNS starts with the Corefile of ConfigMap %s: %s", d.ConfigMap, c.Doubt)
		f.Fix = "start one with this image: spotdrill recommend --try-next-pod"
		return []Finding{f}
	}
	return nil
}

// lintEnd checks what a terminating pod does.
func (d DNS) lintEnd(c coredns.Corefile, s coredns.Settings) []Finding {
	proposed := d.propose(s)
	switch {
	case c.Refused != "" && (c.LameduckUnknown != "" || len(c.Health) == 0):
		return nil // what is behind the error is judged when it is corrected
	case len(c.Health) == 0:
		return []Finding{breaks("health-plugin", "the Corefile has %s", missing("health", c)).fixedBy(proposed.Lameduck.D()).unlessIn(c.Unread)}
	case c.LameduckUnknown != "":
		return []Finding{unknown("lameduck", "the lameduck is unknown: %s", c.LameduckUnknown).fixedBy(proposed.Lameduck.D())}
	case s.Lameduck == 0:
		return []Finding{breaks("lameduck", "the health plugin has no lameduck, or a lameduck of 0 s").fixedBy(proposed.Lameduck.D())}
	}
	if d.Workload.Kind == "" {
		return nil // what else is needed is unknown
	}
	var found []Finding
	const rule = "lameduck-within-grace-period"
	preStop, unknownHook := d.preStop()
	end, hook := preStop+s.Lameduck.D()+ShutdownTime, ""
	if preStop > 0 {
		hook = fmt.Sprintf("preStop %s, ", preStop)
	}
	switch {
	case end >= s.GracePeriod.D():
		found = append(found, breaks(rule, "%slameduck %s and up to %s for CoreDNS to exit, with terminationGracePeriodSeconds %.0f",
			hook, s.Lameduck.D(), ShutdownTime, s.GracePeriod.D().Seconds()).fixedBy(end.Seconds()))
	case unknownHook != "":
		found = append(found, unknown(rule, "it is unknown %s; it uses up terminationGracePeriodSeconds %.0f, which lameduck %s needs", unknownHook, s.GracePeriod.D().Seconds(), s.Lameduck.D()).fixedBy(end.Seconds()))
	}
	if d.readiness() != nil && s.Lameduck.D() < s.Readiness.Unready()+ProxySync {
		found = append(found, breaks("lameduck-outlasts-readiness",
			"lameduck %s, but a terminating pod stays Ready for up to %s (%s x %d) and in kube-proxy's rules for up to %s more",
			s.Lameduck.D(), s.Readiness.Unready(), s.Readiness.Period.D(), s.Readiness.FailureThreshold, ProxySync).
			fixedBy(proposed.Lameduck.D(), proposed.Readiness.Period.D(), proposed.Readiness.FailureThreshold))
	}
	return found
}

// missing is what a Corefile has instead of a plugin.
func missing(plugin string, c coredns.Corefile) string {
	text := "no " + plugin + " plugin"
	if c.Default {
		text += ": it has no server block at all, so CoreDNS has only whoami and log"
	}
	if len(c.Nothing) > 0 {
		text += ", and nothing is mounted that its import of " + strings.Join(c.Nothing, ", ") + " matches"
	}
	return text
}

// lintReadiness checks whether the readiness probe of a terminating pod fails, and that of others does
// not.
func (d DNS) lintReadiness(c coredns.Corefile) []Finding {
	var found []Finding
	if len(c.Ready) == 0 && c.Refused == "" {
		found = append(found, breaks("ready-plugin", "the Corefile has %s", missing("ready", c)).unlessIn(c.Unread))
	}
	fix := "the port at which the plugin ready listens, with the plugin in the Corefile"
	if port, ok := d.readyPort(c); ok {
		fix = fmt.Sprintf("port %d, where the Corefile has it", port)
	}
	switch probe := d.readiness(); {
	case d.Workload.Kind == "":
	case probe == nil:
		found = append(found, breaks("readiness-probe", "the pods have no readiness probe").fixedBy(fix))
	case probe.HTTPGet == nil:
		found = append(found, breaks("readiness-asks-ready", "the readiness probe does not use HTTP").fixedBy(fix))
	case asks(probe.HTTPGet) != "/ready":
		found = append(found, breaks("readiness-asks-ready", "the readiness probe uses %s", asks(probe.HTTPGet)).fixedBy(fix))
	case len(c.Ready) > 0:
		const rule = "readiness-port"
		found = append(found, d.lintPort(rule, *probe.HTTPGet, c.Ready, "ready")...)
	}
	if container := d.container(); container != nil && container.LivenessProbe != nil && len(c.Health) > 0 {
		if get := container.LivenessProbe.HTTPGet; get != nil && asks(get) == "/health" {
			const rule = "liveness-port"
			found = append(found, d.lintPort(rule, *get, c.Health, "health")...)
		}
	}
	if c.Refused != "" { // what is unknown is judged when it is corrected
		found = slices.DeleteFunc(found, func(f Finding) bool { return f.Unknown })
	}
	for _, at := range c.Ready {
		if at.Port != "" && slices.Contains(c.Health, at) {
			found = append(found, breaks("health-and-ready-ports", "health and ready both listen on %s", at))
		}
	}
	return found
}

// lintReplicas checks whether DNS survives the loss of a node, or of all spot nodes.
func (d DNS) lintReplicas(s coredns.Settings) []Finding {
	var found []Finding
	f := breaks("replicas", "replicas %d", s.Replicas)
	if by := d.scaledBy(); by != "" {
		f.Fix = "at least 2 replicas as the minimum of the autoscaler that owns them (" + by + "), on different nodes"
		if s.Replicas > 1 && d.ScaledFrom == 1 {
			f.Got += fmt.Sprintf(", and %s may scale to 1", by)
		}
	}
	switch {
	case s.Replicas == 0 && (d.Workload.Kind == DaemonSet || d.Workload.unset):
		found = append(found, unknown("replicas", "how many pods %s has is not known", d.Workload))
	case s.Replicas < 2 || d.ScaledFrom == 1:
		found = append(found, f)
	}
	found = append(found, d.lintSpread()...)
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
	case slices.ContainsFunc(d.Gaps, func(g Gap) bool { return g.Rule == rule }):
	case len(d.Pods) == 0:
		f := unknown(rule, "%s has no pods on nodes", d.Workload)
		f.Fix = "find out why: `kubectl -n " + d.Workload.Namespace + " describe " + strings.ToLower(string(d.Workload.Kind)) + " " + d.Workload.Name + "`"
		found = append(found, f)
	case spot == len(d.Pods):
		found = append(found, breaks(rule, "all %s are on spot nodes: %s", history.Count(spot, "pod"), places(d.Pods)))
	case spot+len(unlabelled) == len(d.Pods):
		f := unknown(rule, "no label shows the capacity of %s%s", strings.Join(unlabelled, ", "), after("; ", d.NodesUnread))
		f.Fix = "label the nodes with " + history.CapacityLabel + ", or ensure that one of them is not spot"
		found = append(found, f)
	}
	return found
}

// after is a text behind a separator, if there is one.
func after(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}

// places lists which pod is on which node.
func places(pods []Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, fmt.Sprintf("%s on %s", p.Name, p.Node))
	}
	return strings.Join(out, ", ")
}

// budgetsOfPods returns the budgets that select the pods of CoreDNS.
func (d DNS) budgetsOfPods() (of []policyv1.PodDisruptionBudget) {
	for _, b := range d.Budgets {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(d.Workload.Template.Labels)) {
			of = append(of, b)
		}
	}
	return of
}

// lintBudgets checks how many pods can be evicted at a time.
func (d DNS) lintBudgets(s coredns.Settings) []Finding {
	of := d.budgetsOfPods()
	switch len(of) {
	case 0:
		if d.Workload.Kind == DaemonSet || slices.ContainsFunc(d.Gaps, func(g Gap) bool { return g.Rule == "budget" }) {
			return nil // a drain leaves its pods where they are; or it is not known
		}
		return []Finding{breaks("budget", "no PodDisruptionBudget selects the pods")}
	case 1:
	default:
		var names []string
		for _, b := range of {
			names = append(names, b.Name)
		}
		return []Finding{breaks("one-budget", "several PodDisruptionBudgets select the pods: %s", strings.Join(names, ", "))}
	}
	if s.Replicas == 0 {
		return nil // how many there are is not known
	}
	b := of[0]
	const rule = "budget-lets-one-go"
	switch allowed, err := allows(b.Spec, s.Replicas); {
	case err != nil:
		return []Finding{unknown(rule, "PodDisruptionBudget %s: %v", b.Name, err)}
	case allowed >= s.Replicas && s.Replicas > 1 && d.Workload.Kind != DaemonSet:
		return []Finding{breaks("budget", "PodDisruptionBudget %s allows the eviction of all %s at the same time", b.Name, history.Count(s.Replicas, "pod"))}
	case allowed < 1:
		return []Finding{breaks(rule, "PodDisruptionBudget %s allows no eviction of %s", b.Name, history.Count(s.Replicas, "pod"))}
	case b.Status.ObservedGeneration == b.Generation && b.Status.ExpectedPods > 0 && b.Status.DisruptionsAllowed < 1:
		f := breaks(rule, "PodDisruptionBudget %s allows no eviction now: %s healthy, and it requires %d", b.Name, history.Count(b.Status.CurrentHealthy, "pod"), b.Status.DesiredHealthy)
		f.Fix = "find out why pods are unhealthy: `kubectl -n " + b.Namespace + " get pods`"
		return []Finding{f}
	}
	return nil
}

// allows returns how many of that many healthy pods a budget allows to evict. As in
// Kubernetes, a percentage is rounded up, and a budget without a value keeps one pod.
func allows(spec policyv1.PodDisruptionBudgetSpec, replicas int) (int, error) {
	if spec.MaxUnavailable != nil {
		n, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, replicas, true)
		return min(n, replicas), err
	}
	stay := intstr.FromInt32(1)
	if spec.MinAvailable != nil {
		stay = *spec.MinAvailable
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&stay, replicas, true)
	return replicas - n, err
}

// Size is that of a cluster.
type Size struct{ Nodes, Cores int }

func (s Size) String() string {
	return fmt.Sprintf("%s with %s", history.Count(s.Nodes, "node"), history.Count(s.Cores, "core"))
}

// sizeOf counts what EKS counts. Parts of a core add up to whole ones.
func sizeOf(nodes []corev1.Node) Size {
	milli := int64(0)
	for i := range nodes {
		milli += nodes[i].Status.Capacity.Cpu().MilliValue()
	}
	return Size{Nodes: len(nodes), Cores: int((milli + 999) / 1000)}
}

// replicasFor is the number of replicas for the size of the cluster, at least two.
func (d DNS) replicasFor() int {
	return coredns.AutoScaling{Min: 2, Max: coredns.MostReplicas}.Replicas(d.Size.Nodes, d.Size.Cores)
}

// lintSize checks whether there are enough replicas for the size of the cluster.
func (d DNS) lintSize(s coredns.Settings) []Finding {
	const rule = "replicas-for-cluster-size"
	want := d.replicasFor()
	if d.NodesUnread != "" && d.Workload.Kind != DaemonSet {
		return gaps([]Gap{{rule, d.NodesUnread}})
	}
	if s.Replicas < 2 || s.Replicas >= want || d.Workload.Kind == DaemonSet {
		return nil // fewer than two break another rule; a DaemonSet has as many as nodes
	}
	f := breaks(rule, "replicas %d, and the cluster has %s", s.Replicas, d.Size).fixedBy(want)
	if by := d.scaledBy(); by != "" {
		f.Fix = fmt.Sprintf("at least %s as the minimum of the autoscaler that owns them (%s)", history.Count(want, "replica"), by)
	}
	return []Finding{f}
}
