// Package recommend holds the CoreDNS of a cluster to the rules by which a pod of it
// can go away without a query being lost, and says what to change. All but Read are
// functions of what Read found; nothing here writes to a cluster.
package recommend

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

// DNS is the CoreDNS of a cluster, as far as its end depends on it.
type DNS struct {
	Corefile   string // the text
	ConfigMap  string // that holds it
	Deployment *appsv1.Deployment
	Budgets    []policyv1.PodDisruptionBudget // of the Deployment's namespace
	Pods       []Pod
}

// Pod is a CoreDNS pod.
type Pod struct {
	Name, Node string
	Capacity   Capacity
	Label      string // of its node, that tells of spot; empty of any other
}

// Capacity is what a node was bought as.
type Capacity string

// The capacities. A node that bears none of the known labels is of UnknownCapacity.
const (
	Spot            Capacity = "spot"
	Lasting         Capacity = "lasting" // on demand, reserved, a capacity block
	UnknownCapacity Capacity = "unknown"
)

// capacityLabels are those by which clouds and provisioners tell spot nodes, each
// with the value that means it.
var capacityLabels = []struct{ key, spot string }{
	{"karpenter.sh/capacity-type", "spot"},
	{"eks.amazonaws.com/capacityType", "SPOT"},
	{"alpha.eksctl.io/capacity-type", "spot"},
	{"node.kubernetes.io/lifecycle", "spot"},
	{"cloud.google.com/gke-spot", "true"},
	{"cloud.google.com/gke-preemptible", "true"},
	{"kubernetes.azure.com/scalesetpriority", "spot"},
}

// CapacityOf reads a node's capacity off its labels, and says which of them told of
// spot. Where two contradict each other it counts as spot.
func CapacityOf(labels map[string]string) (of Capacity, label string) {
	of = UnknownCapacity
	for _, l := range capacityLabels {
		value, ok := labels[l.key]
		switch {
		case ok && strings.EqualFold(value, l.spot):
			return Spot, l.key
		case ok && value != "":
			of = Lasting
		}
	}
	return of, ""
}

// Settings are those that decide whether queries are lost when a pod goes away.
type Settings struct {
	Lameduck         time.Duration
	ReadinessPeriod  time.Duration // whole seconds
	FailureThreshold int
	GracePeriod      time.Duration // whole seconds
	Replicas         int
}

// What Kubernetes takes where a Deployment does not say.
const (
	defaultPeriod    = 10 * time.Second
	defaultThreshold = 3
	defaultGrace     = 30 * time.Second
	defaultReplicas  = 1
)

// Unready is how long a pod that is told to end is Ready at most: the readiness
// probe must fail so many times in a row.
func (s Settings) Unready() time.Duration {
	return s.ReadinessPeriod * time.Duration(s.FailureThreshold)
}

// settings are those in force, the defaults of Kubernetes put in.
func (d DNS) settings(c coredns.Corefile) Settings {
	spec := d.Deployment.Spec.Template.Spec
	s := Settings{
		Lameduck: c.Lameduck, ReadinessPeriod: defaultPeriod, FailureThreshold: defaultThreshold,
		GracePeriod: defaultGrace, Replicas: int(ptr.Deref(d.Deployment.Spec.Replicas, defaultReplicas)),
	}
	if g := spec.TerminationGracePeriodSeconds; g != nil {
		s.GracePeriod = time.Duration(*g) * time.Second
	}
	if probe := d.readiness(); probe != nil {
		if probe.PeriodSeconds > 0 {
			s.ReadinessPeriod = time.Duration(probe.PeriodSeconds) * time.Second
		}
		if probe.FailureThreshold > 0 {
			s.FailureThreshold = int(probe.FailureThreshold)
		}
	}
	return s
}

// container is the one that CoreDNS runs in: by its name, else the first.
func (d DNS) container() *corev1.Container {
	containers := d.Deployment.Spec.Template.Spec.Containers
	for i := range containers {
		if containers[i].Name == "coredns" {
			return &containers[i]
		}
	}
	if len(containers) == 0 {
		return nil
	}
	return &containers[0]
}

// readiness is nil without a readiness probe.
func (d DNS) readiness() *corev1.Probe {
	if c := d.container(); c != nil {
		return c.ReadinessProbe
	}
	return nil
}
