package consent

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spotdrill/spotdrill/framework/foreign"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Plan is what a drill would touch, what keeps it safe, how it is put back, and why it is
// refused.
type Plan struct {
	Request Request // with its defaults, and the instance in its notice

	Pod      types.NamespacedName // that is evicted; only of evict-coredns
	PodUID   types.UID
	NodeUID  types.UID // of drain and notice
	Instance string    // the node's EC2 instance; empty if it has none

	Moves []string // namespace/name of each pod that would be evicted, sorted

	// For people, one sentence or two each.
	Touches, Safe, Restore, Refusals []string
}

// Refused returns an error with every reason for which the plan cannot be played; nil if there
// is none.
func (p Plan) Refused() error {
	if len(p.Refusals) == 0 {
		return nil
	}
	return errors.New("the drill is refused: " + strings.Join(p.Refusals, "; "))
}

// WriteText writes the plan for people.
func (p Plan) WriteText(w io.Writer) error {
	var b strings.Builder
	section := func(title string, items []string) {
		if len(items) == 0 {
			return
		}
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		b.WriteString(title + "\n")
		for _, item := range items {
			b.WriteString("  - " + foreign.Line(item) + "\n")
		}
	}
	section("What is touched", p.Touches)
	for _, pod := range p.Moves {
		b.WriteString("      " + foreign.Line(pod) + "\n")
	}
	section("What keeps it safe", p.Safe)
	section("How it is put back", p.Restore)
	section("Refused, because", p.Refusals)
	_, err := io.WriteString(w, b.String())
	return wrap.Errorf(err, "write the plan")
}

// changedSince returns an error if a plan is not about the same objects as one that was made
// before it.
func (p Plan) changedSince(before Plan) error {
	switch {
	case p.NodeUID != before.NodeUID:
		return fmt.Errorf("node %s is not the one of the plan: it had the UID %s, and now %s; make a new plan", p.Request.Node, before.NodeUID, p.NodeUID)
	case p.Pod != before.Pod || p.PodUID != before.PodUID:
		return fmt.Errorf("the pod to evict is now %s (UID %s), and in the plan it was %s (UID %s); make a new plan", p.Pod, p.PodUID, before.Pod, before.PodUID)
	case p.Instance != before.Instance:
		return fmt.Errorf("the instance of node %s is now %q, and in the plan it was %q; make a new plan", p.Request.Node, p.Instance, before.Instance)
	}
	return nil
}

// poolLabel is the label of a node that Karpenter manages.
const poolLabel = "karpenter.sh/nodepool"

// describe describes in words what the plan touches, what keeps it safe, and how it is put back.
func (i *inspection) describe(dns []corev1.Pod) {
	p := &i.plan
	left := len(dns) - len(i.pods)
	switch {
	case p.Request.Action == scenarios.EvictCoreDNS && len(i.pods) > 0:
		i.describeEviction()
	case p.Request.Action == scenarios.DrainNode && i.node != nil:
		left = i.remaining(dns)
		i.describeDrain(dns)
	case p.Request.Action == scenarios.SendNotice && i.node != nil:
		left = i.remaining(dns)
		i.describeNotice(dns)
	default:
		return
	}
	p.Safe = append(p.Safe,
		fmt.Sprintf("%s ready now, and the drill leaves %d of them.", areIs(len(dns), "CoreDNS pod"), left),
		"All this is inspected again immediately before. If something would refuse the drill then, or the node or the pod is another one, nothing is done.",
		"How everything was before is written to disk first, and to an annotation of the node, so that it can be put back after a crash, also from another machine.",
		"A Lease in the cluster keeps a second drill from running at the same time.",
		"spotdrill itself stops, reclaims and deletes no instance and no node.")
}

func (i *inspection) describeEviction() {
	p, pod := &i.plan, i.pods[0]
	p.Touches = []string{fmt.Sprintf("Pod %s on node %s is evicted. Its controller (%s) creates another one.", name(pod), pod.Spec.NodeName, controllerOf(pod))}
	if bare(pod) {
		p.Touches = []string{fmt.Sprintf("Pod %s on node %s is evicted. It has no controller, so nothing creates it again.", name(pod), pod.Spec.NodeName)}
	}
	p.Safe = []string{"The pod is evicted by the Eviction API, which respects PodDisruptionBudgets, and keeps its own grace period."}
	p.Restore = []string{"There is nothing to put back."}
}

func (i *inspection) describeDrain(dns []corev1.Pod) {
	p := &i.plan
	p.Touches = append(i.losses(dns),
		fmt.Sprintf("Node %s is cordoned, and %s evicted from it. Pods of DaemonSets stay. A pod for which no other node has room is Pending until the node is put back:", i.node.Name, areIs(len(i.pods), "pod")))
	p.Safe = []string{"Pods are evicted by the Eviction API, which respects PodDisruptionBudgets, and keep their own grace periods."}
	p.Restore = []string{
		fmt.Sprintf("Node %s is uncordoned. It stays cordoned if somebody else has cordoned it by then, or a handler has marked it. If it is being deleted, or is another node of that name, it is left alone.", i.node.Name),
		"Pods stay on the nodes that they moved to.",
	}
}

func (i *inspection) describeNotice(dns []corev1.Pod) {
	p := &i.plan
	p.Touches = []string{fmt.Sprintf("A notice %s about instance %s is put into %s.", p.Request.Notice.Type, p.Instance, p.Request.Queue)}
	if pool, ok := i.node.Labels[poolLabel]; ok {
		p.Touches = append(p.Touches, fmt.Sprintf("Karpenter manages node %s (NodePool %s). If it gets the notice, it replaces the node and TERMINATES instance %s. This cannot be put back.", i.node.Name, pool, p.Instance))
	} else {
		p.Touches = append(p.Touches, fmt.Sprintf("The handler there does with it what it does with a real notice. Some handlers also terminate instance %s, and this cannot be put back.", p.Instance))
	}
	p.Touches = append(p.Touches, i.losses(dns)...)
	p.Touches = append(p.Touches, fmt.Sprintf("The handler should mark node %s and move %s from it. A pod for which no other node has room is Pending until the node is put back:", i.node.Name, history.Count(len(i.pods), "pod")))
	p.Safe = []string{
		"AWS does not interrupt the instance: the notice is synthetic.",
		"If a PodDisruptionBudget allows no eviction, no notice is sent. But whether budgets are respected is up to the handler.",
	}
	p.Restore = []string{
		fmt.Sprintf("Node %s is uncordoned, unless somebody has cordoned it with kubectl. Taints and labels that appear from now on are removed, and annotations of the handler's. Those of Kubernetes and of the Cluster Autoscaler are left alone.", i.node.Name),
		"If the node is being deleted by then, or is another node of that name, it is left alone.",
		"Pods stay on the nodes that they moved to. A notice that nobody received stays in the queue until its retention period is over.",
	}
}

// losses shows which of the pods to move are CoreDNS, and which lose something for good.
func (i *inspection) losses(dns []corev1.Pod) []string {
	var out []string
	isDNS := func(p corev1.Pod) bool {
		return slices.ContainsFunc(dns, func(d corev1.Pod) bool { return d.UID == p.UID })
	}
	if of := only(i.pods, isDNS); len(of) > 0 {
		out = append(out, "CoreDNS pods among those that move: "+few(namesOf(of))+".")
	}
	if of := only(i.pods, hasEmptyDir); len(of) > 0 {
		out = append(out, "Pods that lose the data in their emptyDir volumes: "+few(namesOf(of))+".")
	}
	if of := only(i.pods, bare); len(of) > 0 {
		out = append(out, "Pods without a controller, which nothing creates again: "+few(namesOf(of))+".")
	}
	return out
}

func controllerOf(p corev1.Pod) string {
	if owner := metav1.GetControllerOf(&p); owner != nil {
		return owner.Kind + " " + owner.Name
	}
	return "none"
}

func areIs(n int, noun string) string {
	if n == 1 {
		return history.Count(n, noun) + " is"
	}
	return history.Count(n, noun) + " are"
}
