// Package recommend checks the CoreDNS of a cluster against the rules by which its pods
// terminate without losing a query, and the Karpenter that may remove their nodes, and
// proposes changes. Read and TryNextPod access a cluster, and Read changes nothing.
package recommend

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// DNS is what is known of a cluster's CoreDNS, and of the Karpenter under it.
type DNS struct {
	// Workload are the pods that answer the cluster's DNS; its Kind is empty if there are none, as
	// the platform answers it by other means.
	Workload Workload
	// WorkloadUnread is why there is no workload, if it is not known whether the cluster has one: files can have a
	// Corefile alone.
	WorkloadUnread string
	// Others are more workloads behind the Service of the cluster's DNS.
	Others   []Workload
	Platform Platform
	Corefile string // the text
	// CorefileUnread is why there is no text.
	CorefileUnread string
	CorefilePath   string // in the pods
	ConfigMap      string // of the Corefile: namespace/name
	// CorefileObject is that ConfigMap, with the owners of its fields, and CorefileKey the key in it;
	// nil if unknown.
	CorefileObject *corev1.ConfigMap
	CorefileKey    string
	Mounts         []Mount
	Env            []corev1.EnvVar                // of the container, also from ConfigMaps
	Budgets        []policyv1.PodDisruptionBudget // of the workload's namespace
	Pods           []Pod
	Size           Size   // of the cluster
	Zones          int    // of its nodes
	NodesUnread    string // why the nodes, and so size, zones and capacities, are not known; empty if they are
	Gaps           []Gap
	// Scaler is what owns the replicas; empty if no such object was found. ScaledFrom is the least
	// replicas that it sets; 0 if unknown.
	Scaler     string
	ScaledFrom int
	Karpenter  Karpenter
	// Handlers are Node Termination Handlers of a cluster without Karpenter, as far as they are known.
	Handlers []TerminationHandler
	// Kubelets are what the kubelets of CoreDNS's nodes do at a shutdown, KubeletsUnread why that is not known of all, and
	// Supposed what they likely do.
	Kubelets       []Kubelet
	KubeletsUnread string
	Supposed       []Supposed
	// Manifests are the files that it was read from; nil for a cluster.
	Manifests *Manifests
}

// Pod is a pod of CoreDNS or of Karpenter.
type Pod struct {
	Name, Node string
	Zone       string // of its node; empty if unknown
	Capacity   Capacity
	Label      string // of its node, by which it is known to be spot; else empty
	Pool       string // Karpenter's NodePool of its node; empty if Karpenter does not manage it
	Kept       bool   // it has the annotation karpenter.sh/do-not-disrupt
}

// Capacity is the capacity type of a node.
type Capacity string

// The capacities. A node with none of the known labels has UnknownCapacity.
const (
	Spot            Capacity = "spot"
	Lasting         Capacity = "lasting" // on demand, reserved, a capacity block
	UnknownCapacity Capacity = "unknown"
)

// capacityLabels are the labels by which clouds and provisioners mark spot nodes, each
// with the value of a spot node.
var capacityLabels = []struct{ key, spot string }{
	{history.CapacityLabel, history.Spot},
	{"eks.amazonaws.com/capacityType", "SPOT"},
	{"alpha.eksctl.io/capacity-type", "spot"},
	{"node.kubernetes.io/lifecycle", "spot"},
	{"cloud.google.com/gke-spot", "true"},
	{"cloud.google.com/gke-preemptible", "true"},
	{"kubernetes.azure.com/scalesetpriority", "spot"},
	{"machine.openshift.io/interruptible-instance", ""},
	{"oci.oraclecloud.com/oke-is-preemptible", "true"},
	{"spotinst.io/node-lifecycle", "spot"},
	{"scheduling.cast.ai/spot", "true"},
	{"lifecycle", "Ec2Spot"}, // of AWS's workshops and examples
}

// lastingLabels mark nodes that are not spot, each with such a value; empty for every value. AKS and
// GKE label each of their nodes, and those that are spot by a label above.
var lastingLabels = []struct{ key, value string }{
	{computeTypeLabel, "fargate"},
	{"node-role.kubernetes.io/control-plane", ""},
	{"node-role.kubernetes.io/master", ""},
	{"kubernetes.azure.com/cluster", ""},
	{"cloud.google.com/gke-nodepool", ""},
}

// CapacityOf determines a node's capacity from its labels and returns the label that
// marks it as spot. If labels contradict each other, the node counts as spot.
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
	for _, l := range lastingLabels {
		if value, ok := labels[l.key]; ok && (l.value == "" || value == l.value) {
			of = Lasting
		}
	}
	return of, ""
}

// Kubernetes' defaults for what a workload does not specify; times in seconds.
const (
	defaultPeriod    = 10
	defaultThreshold = 3
	defaultGrace     = 30
	defaultReplicas  = 1
)

// settings returns the settings in force, including Kubernetes' defaults. The placement
// is not a setting here, but follows from where the pods are.
func (d DNS) settings(c coredns.Corefile) coredns.Settings {
	seconds := func(n int64) strict.Duration { return strict.Duration(time.Duration(n) * time.Second) }
	s := coredns.Settings{
		Replicas: d.Workload.Replicas,
		Lameduck: strict.Duration(c.Lameduck), LameduckUnknown: c.LameduckUnknown != "" || d.CorefileUnread != "",
		GracePeriod: seconds(ptr.Deref(d.Workload.Template.Spec.TerminationGracePeriodSeconds, defaultGrace)),
	}
	if probe := d.readiness(); probe != nil {
		s.Readiness = coredns.Readiness{
			Period:           seconds(int64(cmp.Or(probe.PeriodSeconds, defaultPeriod))),
			FailureThreshold: int(cmp.Or(probe.FailureThreshold, defaultThreshold)),
		}
	}
	return s
}

// container returns the container of CoreDNS.
func (d DNS) container() *corev1.Container {
	return d.Workload.container()
}

// containerOf returns the container with that name, else the first; nil if there is none.
func containerOf(pod *corev1.PodSpec, name string) *corev1.Container {
	if len(pod.Containers) == 0 {
		return nil
	}
	named := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == name })
	return &pod.Containers[max(0, named)]
}

// readiness returns the readiness probe, or nil.
func (d DNS) readiness() *corev1.Probe {
	if c := d.container(); c != nil {
		return c.ReadinessProbe
	}
	return nil
}

// begins reports whether nothing runs before what follows these words of a command line: they are those of a shell.
func begins(words []string) bool {
	shell := len(words) > 1 && strings.HasSuffix(path.Base(words[0]), "sh") && shellText.MatchString(words[1])
	return len(words) == 0 || shell && (len(words) == 2 || len(words) == 3 && words[2] == "exec")
}

// preStop is how long the hook preStop of the container runs at least before CoreDNS hears of its end: it uses up
// the grace period. Unknown is why it may run longer; empty if it does not.
func (d DNS) preStop() (seconds time.Duration, unknown string) {
	c := d.container()
	if c == nil || c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
		return 0, ""
	}
	switch hook := c.Lifecycle.PreStop; {
	case hook.Sleep != nil:
		return time.Duration(hook.Sleep.Seconds) * time.Second, ""
	case hook.Exec != nil:
		words := commandLine(&corev1.Container{Command: hook.Exec.Command}) // sleep 25, or sh -c "sleep 25; true"
		if i := slices.IndexFunc(words, func(word string) bool { return path.Base(word) == "sleep" }); i >= 0 && i+1 < len(words) && begins(words[:i]) {
			text, more := strings.CutSuffix(words[i+1], ";")
			if !strings.ContainsAny(text, "smhd") {
				text += "s"
			}
			if d, err := time.ParseDuration(text); err == nil && d >= 0 {
				if !more && i+2 == len(words) {
					return d, ""
				}
				return d, "how much longer its preStop hook runs: " + strings.Join(hook.Exec.Command, " ")
			}
		}
		return 0, "how long its preStop hook runs: " + strings.Join(hook.Exec.Command, " ")
	}
	return 0, "how long its preStop hook runs"
}
