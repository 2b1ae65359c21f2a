package coredns

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/strict"
)

// DoNotDisrupt is the annotation of a pod or node that Karpenter must not remove by itself.
const DoNotDisrupt = "karpenter.sh/do-not-disrupt"

// Settings are the settings of CoreDNS that decide whether queries are lost when one of
// its pods terminates.
type Settings struct {
	// Placement is the capacity type of the nodes that the pods run on. With spread, the
	// pods are spread evenly over spot and on-demand nodes. With anywhere, they run as
	// kubeadm places them: on any node, preferably on different ones. With launched, the
	// handler launches nodes for them.
	Placement Placement `yaml:"placement"`
	// Replicas is the number of pods, 1 to 10.
	Replicas int `yaml:"replicas"`
	// AutoScaling scales the pods with the size of the cluster, as Amazon EKS scales the add-on
	// coredns. Replicas is then the number at first.
	AutoScaling AutoScaling `yaml:"autoScaling,omitempty"`
	// Lameduck is how long a terminating pod continues to answer, a setting of the health
	// plugin.
	Lameduck strict.Duration `yaml:"lameduck"`
	// LameduckUnknown is set if Lameduck could not be read, in a cluster or a Corefile. A valid scenario does not have it.
	LameduckUnknown bool      `yaml:"-"`
	Readiness       Readiness `yaml:"readiness"`
	// GracePeriod is the pods' terminationGracePeriodSeconds, in whole seconds and longer
	// than lameduck.
	GracePeriod strict.Duration `yaml:"gracePeriod"`
	// Unsafe permits a grace period that is not longer than lameduck: the kubelet kills the pods
	// in the middle of it.
	Unsafe bool `yaml:"unsafe,omitempty"`
	// Delay is how long CoreDNS takes to answer, 0s to 1s. It applies to one name only, which
	// the probe must query: delayed.spotdrill.test. Use it to simulate a slow upstream resolver:
	// more queries are in flight at the same time.
	Delay strict.Duration `yaml:"delay,omitempty"`
	// MinAvailable is that of a PodDisruptionBudget of the CoreDNS pods: how many must stay
	// Ready. With neither it nor MaxUnavailable, there is no budget, as kubeadm leaves it.
	MinAvailable int `yaml:"minAvailable,omitempty"`
	// MaxUnavailable is that of the budget in place of MinAvailable: a number of pods, or a share such as 33%.
	MaxUnavailable Amount `yaml:"maxUnavailable,omitempty"`
	// UnhealthyPodEvictionPolicy is the budget's field with that name; left out, it is IfHealthyBudget.
	UnhealthyPodEvictionPolicy string `yaml:"unhealthyPodEvictionPolicy,omitempty"`
	// AntiAffinity is whether two of the pods may run on one node. Left out, it follows from the placement. It has no
	// effect with placement on-demand, which has one node, nor with ShareNodes.
	AntiAffinity AntiAffinity `yaml:"antiAffinity,omitempty"`
	// TopologySpread are the topology spread constraints of the pods, with a maxSkew of 1. Those by host have no effect
	// with placement on-demand, which has one node.
	TopologySpread []TopologySpread `yaml:"topologySpread,omitempty"`
	// DaemonSet runs a pod on each node of the placement, by a DaemonSet in place of the Deployment. Replicas is then
	// how many that are on the spot nodes, and anti-affinity and topology spread have no effect.
	DaemonSet bool `yaml:"daemonSet,omitempty"`
	// Rollout is how the Deployment replaces its pods; left out, as kubeadm sets it.
	Rollout Rollout `yaml:"rollout,omitempty"`
	// DoNotDisrupt reports whether the pods have the annotation karpenter.sh/do-not-disrupt.
	DoNotDisrupt bool `yaml:"doNotDisrupt,omitempty"`
	// Memory is what each pod requests, such as 2Gi; left out, as kubeadm sets it. Use it to
	// choose how many pods fit on a node, with placement launched.
	Memory string `yaml:"memory,omitempty"`
	// PodENI reports whether each pod requests a network interface of its own, as pods with
	// security groups do on Amazon EKS (vpc.amazonaws.com/pod-eni), with placement launched.
	PodENI bool `yaml:"podENI,omitempty"`
	// PreStop is how long a terminating pod continues to run before CoreDNS gets SIGTERM, in whole seconds: a
	// preStop hook that sleeps. Left out, there is no hook.
	PreStop strict.Duration `yaml:"preStop,omitempty"`
	// Tolerations are those of the pods, in addition to kubeadm's.
	Tolerations []Toleration `yaml:"tolerations,omitempty"`
	// Corefile is the Corefile in place of the cluster's own, without imports. Its lameduck, its plugin ready and the server that external
	// names are forwarded to are adapted: lameduck is that of the settings or, left out there, its own; health and ready
	// are added if it has none; and no query leaves the cluster.
	Corefile string `yaml:"corefile,omitempty"`
	// ShareNodes lets pods with placement launched run on one node, if they fit.
	ShareNodes bool `yaml:"shareNodes,omitempty"`
	// Port is the port at which the pods answer, 1 to 65535; left out, 53. The Service has port 53 in any case. A Corefile of
	// its own must have this port, too.
	Port int `yaml:"port,omitempty"`
	// TrafficDistribution is the field of the Service with that name: which pods it prefers. PreferSameNode needs Kubernetes
	// v1.34. Left out, it prefers none. All nodes of a drill are in one zone, so by zone it has no effect.
	TrafficDistribution TrafficDistribution `yaml:"trafficDistribution,omitempty"`
}

// Amount is a number of pods, or a share of them such as 33%.
type Amount string

var amount = regexp.MustCompile(`^(\d{1,4}|\d{1,2}%|100%)$`)

// Valid reports whether it is one.
func (a Amount) Valid() bool { return amount.MatchString(string(a)) }

// AntiAffinity is whether two CoreDNS pods may run on one node.
type AntiAffinity string

// The anti-affinities: pods may share a node, rather do not, or never do.
const (
	NoAntiAffinity        AntiAffinity = "none"
	PreferredAntiAffinity AntiAffinity = "preferred"
	RequiredAntiAffinity  AntiAffinity = "required"
)

// AntiAffinities lists every one.
func AntiAffinities() []AntiAffinity {
	return []AntiAffinity{NoAntiAffinity, PreferredAntiAffinity, RequiredAntiAffinity}
}

// TopologySpread is a topology spread constraint of the CoreDNS pods.
type TopologySpread struct {
	// By is what the pods are spread over: host or zone. All nodes of a drill are in one zone.
	By string `yaml:"by"`
	// WhenUnsatisfiable is DoNotSchedule or ScheduleAnyway.
	WhenUnsatisfiable string `yaml:"whenUnsatisfiable"`
}

// ByHost is the topology of nodes, see SpreadBy.
const ByHost = "host"

// SpreadBy lists what pods can be spread over, and WhenUnsatisfiable what happens if they cannot.
func SpreadBy() []string { return []string{ByHost, "zone"} }

// WhenUnsatisfiable lists what happens to a pod that would break a topology spread constraint.
func WhenUnsatisfiable() []string { return []string{"DoNotSchedule", "ScheduleAnyway"} }

// Rollout is how a Deployment replaces its pods.
type Rollout struct {
	// MaxUnavailable is how many pods may be missing meanwhile: a number, or a share such as 25%.
	MaxUnavailable Amount `yaml:"maxUnavailable,omitempty"`
	// MaxSurge is how many pods there may be in addition: a number, or a share such as 25%.
	MaxSurge Amount `yaml:"maxSurge,omitempty"`
	// MinReady is minReadySeconds, in whole seconds: how long a pod must be Ready to count as available.
	MinReady strict.Duration `yaml:"minReady,omitempty"`
}

// ofScheduling are the settings of the budget, the scheduling and the rollout that differ from those of kubeadm, in words.
func (s Settings) ofScheduling() (words []string) {
	if s.DaemonSet {
		words = append(words, "DaemonSet")
	}
	if s.MaxUnavailable != "" {
		words = append(words, "maxUnavailable "+string(s.MaxUnavailable))
	}
	if s.UnhealthyPodEvictionPolicy != "" {
		words = append(words, "unhealthyPodEvictionPolicy "+s.UnhealthyPodEvictionPolicy)
	}
	if s.AntiAffinity != "" {
		words = append(words, "anti-affinity "+string(s.AntiAffinity))
	}
	for _, t := range s.TopologySpread {
		words = append(words, fmt.Sprintf("spread by %s (%s)", t.By, t.WhenUnsatisfiable))
	}
	if r := s.Rollout; r.MaxUnavailable != "" || r.MaxSurge != "" {
		words = append(words, fmt.Sprintf("rollout with maxUnavailable %s and maxSurge %s", cmp.Or(r.MaxUnavailable, "1"), cmp.Or(r.MaxSurge, "25%")))
	}
	if s.Rollout.MinReady != 0 {
		words = append(words, fmt.Sprintf("minReady %s", s.Rollout.MinReady.D()))
	}
	return words
}

// Toleration is a toleration of the CoreDNS pods, as Kubernetes has it.
type Toleration struct {
	// Key is that of the taint; left out, with operator Exists, every taint is tolerated.
	Key string `yaml:"key,omitempty"`
	// Operator is Equal, the default, or Exists.
	Operator string `yaml:"operator,omitempty"`
	// Value is that of the taint, with operator Equal.
	Value string `yaml:"value,omitempty"`
	// Effect is that of the taint; left out, it is any.
	Effect string `yaml:"effect,omitempty"`
	// TolerationSeconds is how long a pod stays on a node with a taint of the effect NoExecute, in seconds; left
	// out, it stays.
	TolerationSeconds *int64 `yaml:"tolerationSeconds,omitempty"`
}

// The operators and effects that a rule depends on.
const (
	Exists    = "Exists"
	NoExecute = "NoExecute"
)

// Operators lists the operators of a toleration.
func Operators() []string { return []string{"Equal", Exists} }

// String is the toleration as kubectl describe shows it, such as dedicated=dns:NoSchedule.
func (t Toleration) String() string {
	text := t.Key
	if t.Value != "" {
		text += "=" + t.Value
	}
	if t.Effect != "" {
		text += ":" + t.Effect
	}
	if t.Operator == Exists {
		text = strings.TrimSpace(text + " op=Exists")
	}
	if t.TolerationSeconds != nil {
		text += fmt.Sprintf(" for %ds", *t.TolerationSeconds)
	}
	return text
}

// OfOperators are the settings that operators add to those of kubeadm, in words: the preStop hook, tolerations and
// a Corefile.
func (s Settings) OfOperators() (words []string) {
	if s.PreStop != 0 {
		words = append(words, fmt.Sprintf("preStop %s", s.PreStop.D()))
	}
	for _, t := range s.Tolerations {
		words = append(words, fmt.Sprintf("tolerates %s", t))
	}
	if s.Corefile != "" {
		words = append(words, "Corefile of its own")
	}
	return words
}

// Equal reports whether the settings are the same.
func (s Settings) Equal(other Settings) bool { return reflect.DeepEqual(s, other) }

// Text is the Corefile of a CoreDNS with the settings. Given is that of the cluster, which Corefile replaces.
func (s Settings) Text(given string) (string, error) {
	var err error
	if s.Corefile != "" {
		given = s.Corefile
	} else if s.Port != 0 {
		if given, err = WithPort(given, s.Port); err != nil {
			return "", err
		}
	}
	text, err := WithLameduck(given, s.Lameduck.D())
	if err != nil {
		return "", err
	}
	if text, err = (Source{Text: text}).WithReady(); err != nil {
		return "", err
	}
	return WithDelay(text, s.Delay.D()), nil
}

// Defaults are the settings of the CoreDNS that kubeadm installs, on the nodes that stay.
func Defaults() Settings {
	return Settings{
		Placement: OnOnDemand, Replicas: 2, Lameduck: strict.Duration(5 * time.Second),
		Readiness:   Readiness{Period: strict.Duration(10 * time.Second), FailureThreshold: 3},
		GracePeriod: strict.Duration(30 * time.Second),
	}
}

// PodENI is the extended resource of nodes whose pods can have a network interface of their
// own.
const PodENI = "vpc.amazonaws.com/pod-eni"

// DelayedName is the name that CoreDNS answers with a delay.
const DelayedName = "delayed.spotdrill.test."

// String is the settings in words. The placement is left out if it is unknown.
func (s Settings) String() string {
	text := fmt.Sprintf("lameduck %s, %s, grace period %s, replicas %d", s.lameduck(), s.Readiness, s.GracePeriod.D(), s.Replicas)
	if s.Delay != 0 {
		text += fmt.Sprintf(", answers after %s", s.Delay.D())
	}
	if s.MinAvailable != 0 {
		text += fmt.Sprintf(", minAvailable %d", s.MinAvailable)
	}
	if s.DoNotDisrupt {
		text += ", do-not-disrupt"
	}
	if s.Memory != "" {
		text += ", memory " + s.Memory
	}
	if s.PodENI {
		text += ", " + PodENI
	}
	if s.ShareNodes {
		text += ", pods share nodes"
	}
	for _, change := range slices.Concat(s.OfOperators(), s.ofService(), s.ofScheduling()) {
		text += ", " + change
	}
	if s.AutoScaling != (AutoScaling{}) {
		text += ", scaled from " + s.AutoScaling.String()
	}
	if s.Unsafe {
		text += ", unsafe: killed in the middle of lameduck"
	}
	if s.Placement != "" {
		text += ", placement " + string(s.Placement)
	}
	return text
}

// MarshalJSON writes durations with their units. The placement is left out if it is
// unknown.
func (s Settings) MarshalJSON() ([]byte, error) {
	var tolerations []string
	for _, t := range s.Tolerations {
		tolerations = append(tolerations, t.String())
	}
	return json.Marshal(struct {
		Lameduck         string    `json:"lameduck"`
		ReadinessPeriod  string    `json:"readinessPeriod"`
		FailureThreshold int       `json:"failureThreshold"`
		GracePeriod      string    `json:"gracePeriod"`
		Replicas         int       `json:"replicas"`
		Placement        Placement `json:"placement,omitempty"`
		Delay            string    `json:"delay,omitempty"`
		MinAvailable     int       `json:"minAvailable,omitempty"`
		DoNotDisrupt     bool      `json:"doNotDisrupt,omitempty"`
		Memory           string    `json:"memory,omitempty"`
		PodENI           bool      `json:"podENI,omitempty"`
		ShareNodes       bool      `json:"shareNodes,omitempty"`
		Unsafe           bool      `json:"unsafe,omitempty"`
		AutoScaling      string    `json:"autoScaling,omitempty"`
		PreStop          string    `json:"preStop,omitempty"`
		Tolerations      []string  `json:"tolerations,omitempty"`
		Corefile         string    `json:"corefile,omitempty"`
		ReadinessTimeout string    `json:"readinessTimeout,omitempty"`
		ReadinessDelay   string    `json:"readinessInitialDelay,omitempty"`
		Scheduling       []string  `json:"scheduling,omitempty"`
		Service          []string  `json:"service,omitempty"`
	}{
		s.lameduck(), s.Readiness.Period.D().String(), s.Readiness.FailureThreshold, s.GracePeriod.D().String(), s.Replicas, s.Placement, orNone(s.Delay), s.MinAvailable, s.DoNotDisrupt,
		s.Memory, s.PodENI, s.ShareNodes, s.Unsafe, s.AutoScaling.String(), orNone(s.PreStop), tolerations, s.Corefile,
		orNone(s.Readiness.Timeout), orNone(s.Readiness.InitialDelay), s.ofScheduling(), s.ofService(),
	})
}

func (s Settings) lameduck() string {
	if s.LameduckUnknown {
		return "unknown"
	}
	return s.Lameduck.D().String()
}

// orNone is a duration with its unit, "" without one.
func orNone(d strict.Duration) string {
	if d == 0 {
		return ""
	}
	return d.D().String()
}
