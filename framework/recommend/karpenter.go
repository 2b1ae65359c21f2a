package recommend

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

// Karpenter is what is known of the Karpenter that launches and removes nodes of the
// cluster.
type Karpenter struct {
	// Installed reports whether the cluster serves Karpenter's API. If not, the rest is empty.
	Installed bool
	// Unread is why the rest could not be read.
	Unread string
	// Workload is nil if none was found that runs Karpenter.
	Workload   *Workload
	controller string // the name of its container
	// Outside is the product whose Karpenter runs outside of the cluster: EKS Auto Mode, or AKS node
	// auto-provisioning; empty if there is no sign of one.
	Outside string
	// Azure reports whether it launches machines of Azure, where no queue announces interruptions.
	Azure bool
	// Nodes reports whether nodes have the label of a NodePool.
	Nodes bool
	// Region is that of its queue; empty if unknown.
	Region string
	Pods   []Pod
	Pools  []Pool
	// Classes are the EC2NodeClasses, and ClassesUnread is why they are not known.
	Classes       []NodeClass
	ClassesUnread string
	// FormerQueue is the queue in the ConfigMap karpenter-global-settings, which versions
	// before v0.33 read.
	FormerQueue string
	// FormerUnread is why that is not known.
	FormerUnread string
	// PoolsUnread is why the NodePools are not known; empty if they are.
	PoolsUnread string
	// Gaps are rules about it that cannot be evaluated.
	Gaps []Gap
	// Others are the other handlers of the cluster.
	Others []TerminationHandler
	// Removed are the kinds of removed APIs of which there are still objects.
	Removed []RemovedKind
}

// RemovedKind is a kind of Karpenter's API that later versions do not read.
type RemovedKind struct {
	Kind, Group, Version, Resource string
	// Since is the first version of Karpenter that does not read it.
	Since string
}

// removedKinds lists the kinds of each API that was removed.
func removedKinds() []RemovedKind {
	return []RemovedKind{
		{"Provisioner", "karpenter.sh", "v1alpha5", "provisioners", "v0.33.0"},
		{"Machine", "karpenter.sh", "v1alpha5", "machines", "v0.33.0"},
		{"AWSNodeTemplate", "karpenter.k8s.aws", "v1alpha1", "awsnodetemplates", "v0.33.0"},
	}
}

// queueSince is the version from which the queue is a setting of its own, which the chart
// hands over as INTERRUPTION_QUEUE. Earlier ones read it from a ConfigMap.
const queueSince = "v0.33.0"

// Labels and annotations of Karpenter, and of where it does not run itself.
const (
	poolLabel        = "karpenter.sh/nodepool"
	formerPoolLabel  = "karpenter.sh/provisioner-name"  // up to v0.31
	computeTypeLabel = "eks.amazonaws.com/compute-type" // auto, fargate
)

// String is what is known of it in words; empty if the cluster has none.
func (k Karpenter) String() string {
	switch {
	case !k.Installed:
		return ""
	case k.Unread != "":
		return "not read: " + k.Unread
	case k.Workload == nil && k.Outside != "":
		return "that of " + k.Outside + ", which runs outside of the cluster and hears of interruptions by itself"
	case k.Workload == nil:
		return "not found: no running workload has its image, its settings, its label or its rights"
	}
	text := k.Workload.Namespace + "/" + k.Workload.Name
	if v := k.version(); v != nil {
		text += " v" + v.String()
	}
	return text
}

// lintKarpenter checks the Karpenter of the cluster. There is nothing to check where it is EKS Auto
// Mode's, or only its API is left.
func (d DNS) lintKarpenter() []Finding {
	k := d.Karpenter
	if k.Unread != "" {
		return []Finding{unknown("karpenter", "%s", k.Unread)}
	}
	switch {
	case !k.Installed:
		return nil
	case k.Workload == nil && k.Outside == "" && (len(k.Pools) > 0 || k.Nodes):
		return []Finding{unknown("karpenter", "the cluster has NodePools or nodes of Karpenter, but no running workload with its image, its settings, its label or its rights was found")}
	case k.Workload == nil && k.Outside == "" && k.PoolsUnread != "":
		return []Finding{unknown("karpenter", "no workload of Karpenter was found, and whether there are NodePools is not known: %s", k.PoolsUnread)}
	case k.Workload == nil:
		return nil
	}
	var found []Finding
	found = append(found, k.lintQueue()...)
	found = append(found, k.lintOthers(k.queue())...)
	found = append(found, k.lintRemoved()...)
	found = append(found, k.lintPlace()...)
	found = append(found, d.lintCircle()...)
	found = append(found, d.lintConsolidation()...)
	found = append(found, d.lintKept()...)
	found = append(found, k.lintOverlap()...)
	return append(found, gaps(k.Gaps)...)
}

// lintQueue checks whether Karpenter hears of interruptions.
func (k Karpenter) lintQueue() []Finding {
	const rule = "karpenter-interruption-queue"
	const value, formerValue = "settings.interruptionQueue", "settings.aws.interruptionQueueName"
	if k.Azure {
		return nil
	}
	if k.beforeQueueSetting() {
		switch {
		case k.FormerQueue != "":
			return nil
		case k.FormerUnread != "":
			return []Finding{unknown(rule, "%s", k.FormerUnread).fixedBy(formerValue)}
		}
		return []Finding{breaks(rule, "the ConfigMap karpenter-global-settings names no aws.interruptionQueueName").fixedBy(formerValue)}
	}
	switch name, elsewhere := k.setting("INTERRUPTION_QUEUE"); {
	case name != queueName(name):
		return []Finding{breaks("karpenter-interruption-queue-name", "INTERRUPTION_QUEUE is %q, and Karpenter looks for a queue of that name", name).fixedBy(queueName(name))}
	case name != "":
		return nil
	case elsewhere != "":
		return []Finding{unknown(rule, "INTERRUPTION_QUEUE is not in the Deployment, but may be in %s", elsewhere).fixedBy(value)}
	case k.FormerQueue != "":
		return []Finding{breaks("karpenter-interruption-queue-key", "INTERRUPTION_QUEUE is empty; the queue %s is in the ConfigMap karpenter-global-settings, which is not read since %s", k.FormerQueue, queueSince)}
	}
	return []Finding{breaks(rule, "INTERRUPTION_QUEUE is empty").fixedBy(value)}
}

// InterruptionQueue is the name of the queue that Karpenter reads; empty if it has none, or
// that is not known.
func (a Advice) InterruptionQueue() string {
	if k := a.dns.Karpenter; k.Workload != nil {
		return k.queue()
	}
	return ""
}

// queue is its name; empty if there is none, or that is not known.
func (k Karpenter) queue() string {
	if k.beforeQueueSetting() {
		return queueName(k.FormerQueue)
	}
	name, _ := k.setting("INTERRUPTION_QUEUE")
	return queueName(name)
}

// Queue is what was found of the interruption queue in AWS.
type Queue struct {
	Name    string
	Missing bool
	// Unread is why it is not known whether there is such a queue; empty if it is.
	Unread string
	// Unheard are the types of notices that no rule sends there.
	Unheard []string
	// Unclear are those of which that is not known, and Doubts the reasons.
	Unclear, Doubts []string
	// Silent are the rules with the queue as a target by which nothing gets there, with the reasons.
	Silent []string
	// Policy is what its policy has against rules that send to it, and Encryption what its key has.
	Policy, Encryption Objection
}

// Objection is why nothing gets to a queue, or why that is not known. Without a reason there is none.
type Objection struct {
	Why     string
	Unknown bool
}

// against is the finding of an objection against a queue.
func (o Objection) against(queue string, f Finding) Finding {
	f.Got, f.Unknown = fmt.Sprintf("queue %s: %s", queue, o.Why), o.Unknown
	return f
}

// WithQueue adds what is wrong with the interruption queue.
func (a Advice) WithQueue(q Queue) Advice {
	if q.Unread != "" {
		return a.With(unknown("karpenter-queue-exists", "whether there is a queue %s, and what gets to it, is not known: %s", q.Name, q.Unread))
	}
	if q.Missing {
		return a.With(breaks("karpenter-queue-exists", "there is no queue %s in the account and region of your AWS credentials", q.Name))
	}
	if q.Policy.Why != "" {
		a = a.With(q.Policy.against(q.Name, breaks("karpenter-queue-policy", "")))
	}
	if q.Encryption.Why != "" {
		a = a.With(q.Encryption.against(q.Name, breaks("karpenter-queue-encryption", "")))
	}
	if len(q.Unheard) > 0 {
		a = a.With(breaks("karpenter-queue-rules", "no EventBridge rule sends to queue %s: %s%s", q.Name, strings.Join(q.Unheard, ", "), after("; ", strings.Join(q.Silent, "; "))))
	}
	if len(q.Unclear) > 0 {
		a = a.With(unknown("karpenter-queue-rules", "whether an EventBridge rule sends to queue %s is not known of %s: %s", q.Name, strings.Join(q.Unclear, ", "), strings.Join(q.Doubts, "; ")))
	}
	return a
}

// lintRemoved checks for objects that this version of Karpenter does not read.
func (k Karpenter) lintRemoved() []Finding {
	var kinds []string
	for _, r := range k.Removed {
		if v := k.version(); v == nil || v.AtLeast(version.MustParseGeneric(r.Since)) {
			kinds = append(kinds, fmt.Sprintf("%s of %s/%s", r.Kind, r.Group, r.Version))
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	return []Finding{breaks("karpenter-removed-apis", "there are objects of removed APIs: %s", strings.Join(kinds, ", "))}
}

// lintPlace checks whether Karpenter removes the node under itself.
func (k Karpenter) lintPlace() []Finding {
	own := slices.DeleteFunc(slices.Clone(k.Pods), func(p Pod) bool { return p.Pool == "" })
	if len(k.Pods) == 0 || len(own) < len(k.Pods) {
		return nil
	}
	f := breaks("karpenter-off-its-own-nodes", "all pods of Karpenter are on nodes that it manages: %s", places(own))
	if term := k.deadTerm(); term != "" {
		f.Got += "; its node affinity has the term " + term + ", which every node matches since v0.32, and terms are ORed"
		f.Source = "https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-affinity"
	}
	return []Finding{f}
}

// deadTerm finds a term of Karpenter's required node affinity that was to keep it off its
// nodes by a label that nodes no longer have.
func (k Karpenter) deadTerm() string {
	affinity := k.Workload.Template.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		keeps := func(key string) bool {
			return slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
				return r.Key == key && r.Operator == corev1.NodeSelectorOpDoesNotExist
			})
		}
		if keeps(formerPoolLabel) && !keeps(poolLabel) {
			return formerPoolLabel + " DoesNotExist"
		}
	}
	return ""
}

// lintCircle checks whether Karpenter needs the DNS whose nodes it has to launch.
func (d DNS) lintCircle() []Finding {
	spec := d.Karpenter.Workload.Template.Spec
	clusterFirst := spec.DNSPolicy == corev1.DNSClusterFirstWithHostNet || !spec.HostNetwork && (spec.DNSPolicy == "" || spec.DNSPolicy == corev1.DNSClusterFirst)
	if !clusterFirst || len(d.Pods) == 0 || slices.ContainsFunc(d.Pods, func(p Pod) bool { return p.Pool == "" }) {
		return nil
	}
	return []Finding{breaks("karpenter-without-its-own-dns", "all pods of CoreDNS are on nodes of Karpenter, and Karpenter has dnsPolicy ClusterFirst")}
}

// lintConsolidation checks whether Karpenter may remove the nodes of CoreDNS at any time.
func (d DNS) lintConsolidation() []Finding {
	if len(d.budgetsOfPods()) > 0 {
		return nil
	}
	var moved, unclear []Pod
	for _, p := range d.Pods {
		if p.Kept {
			continue
		}
		if p.Pool != "" && d.Karpenter.PoolsUnread != "" {
			unclear = append(unclear, p)
		}
		if slices.ContainsFunc(d.Karpenter.Pools, func(pool Pool) bool { return pool.Name == p.Pool && pool.Consolidates }) {
			moved = append(moved, p)
		}
	}
	if len(unclear) > 0 {
		return []Finding{unknown("dns-on-consolidated-nodes", "whether Karpenter may consolidate the nodes of these pods, which have no PodDisruptionBudget, is not known: %s: %s", places(unclear), d.Karpenter.PoolsUnread)}
	}
	if len(moved) == 0 {
		return nil
	}
	return []Finding{breaks("dns-on-consolidated-nodes", "pods on nodes that Karpenter may consolidate, without a PodDisruptionBudget: %s", places(moved))}
}

// lintKept checks whether Karpenter would leave CoreDNS on a node that is reclaimed. The drill
// notice-drains-pods-not-to-be-disrupted shows it.
func (d DNS) lintKept() []Finding {
	kept := slices.DeleteFunc(slices.Clone(d.Pods), func(p Pod) bool { return !p.Kept || p.Pool == "" })
	if len(kept) == 0 {
		return nil
	}
	return []Finding{breaks("dns-not-kept-at-a-notice", "pods with "+coredns.DoNotDisrupt+" on nodes of Karpenter: %s", places(kept))}
}

// version is Karpenter's, by the tag of its image; nil if that has none.
func (k Karpenter) version() *version.Version {
	c := k.container()
	if c == nil {
		return nil
	}
	v, err := version.ParseGeneric(tagOf(c.Image))
	if err != nil {
		return nil
	}
	return v
}

// beforeQueueSetting reports whether this version reads its queue from the ConfigMap.
func (k Karpenter) beforeQueueSetting() bool {
	v := k.version()
	return v != nil && v.LessThan(version.MustParseGeneric(queueSince))
}

// container is the one in which it was found, else the one named controller, else the first.
func (k Karpenter) container() *corev1.Container {
	return containerOf(&k.Workload.Template.Spec, cmp.Or(k.controller, "controller"))
}

// setting is the value of a setting, by its environment variable or the argument of the same name; and
// where else it may be, if it is in neither.
func (k Karpenter) setting(variable string) (value, elsewhere string) {
	return setting(k.container(), variable, strings.ReplaceAll(strings.ToLower(variable), "_", "-"))
}
