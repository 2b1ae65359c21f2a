package recommend

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/spotdrill/spotdrill/framework/addon"
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

// addOnValues are the values of CoreDNS that decide whether a query is lost, and where they are.
func (d DNS) addOnValues() []addOnValue {
	pod := []any{"spec", "template", "spec"}
	in := func(path ...any) []any { return append(slices.Clone(pod), path...) }
	values := []addOnValue{
		{"replicas", d.Deployment, []any{"spec", "replicas"}},
		{"nodeSelector", d.Deployment, in("nodeSelector")},
		{"terminationGracePeriodSeconds", d.Deployment, in("terminationGracePeriodSeconds")},
	}
	if c := d.container(); c != nil {
		values = append(values, addOnValue{"the readiness probe", d.Deployment, in("containers", addon.Item(c.Name), "readinessProbe")})
	}
	if d.CorefileObject != nil {
		values = append(values, addOnValue{"the Corefile (with lameduck)", d.CorefileObject, []any{"data", "Corefile"}})
	}
	return values
}

type addOnValue struct {
	name string
	of   metav1.Object
	path []any
}

// lintAddOn checks whether values of an EKS add-on were set by somebody else, whom an upgrade
// overrules.
func (d DNS) lintAddOn() []Finding {
	managers, err := addon.Owners(d.Deployment, "spec")
	if err == nil && !slices.Contains(managers, addon.Manager) {
		return nil // no add-on
	}
	var set []string
	for _, v := range d.addOnValues() {
		var by []string
		if by, err = addon.Owners(v.of, v.path...); err != nil {
			break
		}
		by = slices.DeleteFunc(by, func(manager string) bool {
			return manager == addon.Manager || strings.Contains(manager, "autoscaler")
		})
		if len(by) > 0 {
			set = append(set, fmt.Sprintf("%s by %s", v.name, strings.Join(by, ", ")))
		}
	}
	const rule = "add-on-values-by-configuration"
	switch {
	case err != nil:
		return []Finding{unknown(rule, "managedFields cannot be read: %v", err)}
	case len(set) > 0:
		return []Finding{breaks(rule, "CoreDNS is an EKS add-on, and others than EKS set: %s", strings.Join(set, "; "))}
	}
	return nil
}

// budgetsOfPods returns the budgets that select the pods of CoreDNS.
func (d DNS) budgetsOfPods() (of []policyv1.PodDisruptionBudget) {
	for _, b := range d.Budgets {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(d.Deployment.Spec.Template.Labels)) {
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
		return []Finding{breaks("budget", "no PodDisruptionBudget selects the pods")}
	case 1:
	default:
		var names []string
		for _, b := range of {
			names = append(names, b.Name)
		}
		return []Finding{breaks("one-budget", "several PodDisruptionBudgets select the pods: %s", strings.Join(names, ", "))}
	}
	b := of[0]
	const rule = "budget-lets-one-go"
	switch allowed, err := allows(b.Spec, s.Replicas); {
	case err != nil:
		return []Finding{unknown(rule, "PodDisruptionBudget %s: %v", b.Name, err)}
	case allowed < 1:
		return []Finding{breaks(rule, "PodDisruptionBudget %s allows no eviction of %d pods", b.Name, s.Replicas)}
	case b.Status.ObservedGeneration == b.Generation && b.Status.ExpectedPods > 0 && b.Status.DisruptionsAllowed < 1:
		f := breaks(rule, "PodDisruptionBudget %s allows no eviction now: %d pods are healthy and it requires %d", b.Name, b.Status.CurrentHealthy, b.Status.DesiredHealthy)
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

// ErrAddOnValues reports that a text has no configuration values of the EKS add-on coredns.
var ErrAddOnValues = errors.New("no configuration values of the EKS add-on coredns")

// Size is that of a cluster.
type Size struct{ Nodes, Cores int }

func (s Size) String() string { return fmt.Sprintf("%d nodes with %d cores", s.Nodes, s.Cores) }

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
	want := d.replicasFor()
	if s.Replicas < 2 || s.Replicas >= want {
		return nil // fewer than two break another rule
	}
	f := breaks("replicas-for-cluster-size", "replicas %d, and the cluster has %s", s.Replicas, d.Size).fixedBy(want)
	f.Why = fmt.Sprintf(f.Why, coredns.NodesPerReplica, coredns.CoresPerReplica)
	return []Finding{f}
}

// autoScaling is the configuration value of the add-on that keeps at least so many replicas.
func autoScaling(replicas int) map[string]any {
	return map[string]any{"enabled": true, "minReplicas": replicas, "maxReplicas": max(coredns.MostReplicas, replicas)}
}

// AddOnValues are the configuration values of the EKS add-on coredns, as far as rules are about
// them.
type AddOnValues struct {
	AutoScaling *struct {
		Enabled     bool `json:"enabled"`
		MinReplicas int  `json:"minReplicas"`
		MaxReplicas int  `json:"maxReplicas"`
	} `json:"autoScaling"`
}

// ReadAddOnValues reads them from JSON or YAML. Errors: ErrAddOnValues.
func ReadAddOnValues(text []byte) (AddOnValues, error) {
	var v AddOnValues
	if err := yaml.Unmarshal(text, &v); err != nil {
		return v, fmt.Errorf("%w: %w", ErrAddOnValues, err)
	}
	if a := v.AutoScaling; a != nil && a.Enabled {
		// What is left out has the add-on's default.
		if a.MinReplicas == 0 {
			a.MinReplicas = 2
		}
		if a.MaxReplicas == 0 {
			a.MaxReplicas = coredns.MostReplicas
		}
		if a.MinReplicas < 1 || a.MaxReplicas < a.MinReplicas {
			return v, fmt.Errorf("%w: autoScaling from %d to %d", ErrAddOnValues, a.MinReplicas, a.MaxReplicas)
		}
	}
	return v, nil
}

// WithAddOnValues adds the findings about configuration values.
func (a Advice) WithAddOnValues(v AddOnValues) Advice {
	if v.AutoScaling == nil || !v.AutoScaling.Enabled {
		return a
	}
	scaling, size := coredns.AutoScaling{Min: v.AutoScaling.MinReplicas, Max: v.AutoScaling.MaxReplicas}, a.dns.Size
	if scaling.Replicas(size.Nodes, size.Cores) > scaling.Min {
		return a
	}
	nodes, cores := scaling.Min*coredns.NodesPerReplica, scaling.Min*coredns.CoresPerReplica
	return a.With(breaks("auto-scaling-by-size", "autoScaling from %d to %d stays at %d up to %d nodes and %d cores, and the cluster has %s",
		scaling.Min, scaling.Max, scaling.Min, nodes, cores, size))
}
