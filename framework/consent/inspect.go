package consent

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// inspection is a plan and the objects that it was made of.
type inspection struct {
	plan Plan
	node *corev1.Node // of drain and notice
	pods []corev1.Pod // that would be evicted
}

// Inspect finds out what the request would touch. It changes nothing: it only gets and lists
// nodes, pods, PodDisruptionBudgets and EndpointSlices. A drill that is not safe is no error,
// but a plan with refusals.
func Inspect(ctx context.Context, client kubernetes.Interface, r Request) (Plan, error) {
	seen, err := inspect(ctx, client, r)
	return seen.plan, err
}

func inspect(ctx context.Context, client kubernetes.Interface, r Request) (inspection, error) {
	r, err := r.complete()
	if err != nil {
		return inspection{}, err
	}
	seen := inspection{plan: Plan{Request: r}}
	dns, err := readyDNS(ctx, client, r.DNSNamespace, r.DNSService)
	if err != nil {
		return inspection{}, err
	}
	if len(dns) < fewestDNS {
		seen.refuse("Service %s/%s has %s (%s), and a drill needs %d: scale CoreDNS up first", r.DNSNamespace, r.DNSService, history.Count(len(dns), "ready CoreDNS pod"), cmp.Or(few(namesOf(dns)), "none"), fewestDNS)
	}
	if r.Action == scenarios.EvictCoreDNS {
		err = seen.inspectEviction(ctx, client, dns)
	} else {
		err = seen.inspectNode(ctx, client, dns)
	}
	if err != nil {
		return inspection{}, err
	}
	seen.describe(dns)
	return seen, nil
}

func (i *inspection) refuse(format string, args ...any) {
	i.plan.Refusals = append(i.plan.Refusals, fmt.Sprintf(format, args...))
}

// inspectEviction chooses the CoreDNS pod to evict: the first by name, so that the same one is
// chosen again.
func (i *inspection) inspectEviction(ctx context.Context, client kubernetes.Interface, dns []corev1.Pod) error {
	r := i.plan.Request
	at := slices.IndexFunc(dns, func(p corev1.Pod) bool { return r.Node == "" || p.Spec.NodeName == r.Node })
	if at < 0 {
		if len(dns) > 0 {
			i.refuse("no ready CoreDNS pod is on node %s: they are on %s", r.Node, few(nodesOf(dns)))
		}
		return nil
	}
	pod := dns[at]
	i.pods = []corev1.Pod{pod}
	i.plan.Pod, i.plan.PodUID = types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pod.UID
	i.plan.Moves = namesOf(i.pods)
	i.refuseBare()
	return i.refuseByBudgets(ctx, client, pod.Namespace)
}

func (i *inspection) inspectNode(ctx context.Context, client kubernetes.Interface, dns []corev1.Pod) error {
	r := i.plan.Request
	node, err := client.CoreV1().Nodes().Get(ctx, r.Node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		i.refuse("there is no node %s: kubectl get nodes lists them", r.Node)
		return nil
	}
	if err != nil {
		return fmt.Errorf("inspect node %s: %w", r.Node, err)
	}
	i.node = node
	i.plan.NodeUID, i.plan.Instance = node.UID, instanceOf(node)
	i.plan.Request.Notice.Instances = nil
	i.refuseNode()
	if err := i.refuseNowhere(ctx, client); err != nil {
		return err
	}
	on, err := podsOn(ctx, client, node.Name)
	if err != nil {
		return err
	}
	i.pods = slices.DeleteFunc(on, func(p corev1.Pod) bool { return !moved(p) })
	i.plan.Moves = namesOf(i.pods)
	if len(i.pods) == 0 {
		i.refuse("node %s has no pods to move, so the drill would show nothing: choose another node", node.Name)
	}
	if left := i.remaining(dns); len(dns) > 0 && left < 1 {
		i.refuse("all ready CoreDNS pods (%s) are on node %s, and none would remain: move one to another node first, or choose another node", few(namesOf(dns)), node.Name)
	}
	i.refuseEmptyDir()
	i.refuseBare()
	return i.refuseByBudgets(ctx, client, metav1.NamespaceAll)
}

// remaining returns how many of the ready CoreDNS pods the drill leaves. What a handler does to
// DaemonSet pods is unknown, so a notice takes every pod of the node.
func (i *inspection) remaining(dns []corev1.Pod) int {
	var left int
	for _, p := range dns {
		taken := slices.ContainsFunc(i.pods, func(m corev1.Pod) bool { return m.UID == p.UID })
		if !taken && (i.plan.Request.Action != scenarios.SendNotice || p.Spec.NodeName != i.plan.Request.Node) {
			left++
		}
	}
	return left
}

// refuseNode refuses a node in a state in which it should be left alone.
func (i *inspection) refuseNode() {
	n := i.node
	if n.DeletionTimestamp != nil {
		i.refuse("node %s is being deleted since %s: choose another node", n.Name, n.DeletionTimestamp.UTC().Format("15:04:05 UTC"))
	}
	if mark, err := markOf(n); mark != nil || err != nil {
		i.refuse("a drill has changed node %s and not put it back (annotation %s): spotdrill restore", n.Name, drillAnnotation)
	}
	if n.Spec.Unschedulable {
		i.refuse("node %s is already cordoned, so somebody may be working on it: choose another node, or kubectl uncordon %s", n.Name, n.Name)
	}
	if why := whyNotReady(n); why != "" {
		i.refuse("node %s is not Ready: %s; choose another node", n.Name, why)
	}
	for _, role := range []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"} {
		if _, ok := n.Labels[role]; ok {
			i.refuse("node %s is of the control plane (label %s): choose a worker", n.Name, role)
			break
		}
	}
	if i.plan.Request.Action != scenarios.SendNotice {
		return
	}
	if i.plan.Instance == "" {
		i.refuse("node %s has the providerID %q, which names no EC2 instance (i-…): choose a node of EC2, or the action drain", n.Name, n.Spec.ProviderID)
		return
	}
	i.plan.Request.Notice.Instances = []string{i.plan.Instance}
}

// refuseNowhere refuses if no other node could run the pods.
func (i *inspection) refuseNowhere(ctx context.Context, client kubernetes.Interface) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	for _, n := range nodes.Items {
		if n.Name != i.node.Name && n.DeletionTimestamp == nil && !n.Spec.Unschedulable && whyNotReady(&n) == "" {
			return nil
		}
	}
	i.refuse("no other node is Ready and schedulable, so the pods of node %s could not run anywhere: add a node first", i.node.Name)
	return nil
}

func whyNotReady(n *corev1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			if c.Status == corev1.ConditionTrue {
				return ""
			}
			return strings.TrimSpace(fmt.Sprintf("its condition Ready is %s %s", c.Status, c.Message))
		}
	}
	return "it has no condition Ready"
}

var instanceID = regexp.MustCompile(`^i-[0-9a-f]{8,17}$`)

// instanceOf returns the EC2 instance of a node, from its providerID aws:///ZONE/ID; empty if it
// has none.
func instanceOf(n *corev1.Node) string {
	rest, ok := strings.CutPrefix(n.Spec.ProviderID, "aws://")
	if id := rest[strings.LastIndex(rest, "/")+1:]; ok && instanceID.MatchString(id) {
		return id
	}
	return ""
}
