package recommend

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

// Supposed is what the kubelets of a platform do by default, if they could not be read.
type Supposed struct {
	Kubelet
	// Platform is what was recognised, and Unless what sets others.
	Platform, Unless string
}

// shutdownPlatform is one whose kubelets delay the shutdown of a node by default.
type shutdownPlatform string

const (
	eksLinux  shutdownPlatform = "EKS with AL2023 and Kubernetes 1.34 or later"
	gkeNodes  shutdownPlatform = "GKE"
	talos     shutdownPlatform = "Talos"
	kOpsNodes shutdownPlatform = "kOps"
)

// byDefault is what such a platform sets.
type byDefault struct {
	platform        shutdownPlatform
	is              func(n corev1.Node, of Platform) bool
	total, critical time.Duration
	unless          string
}

var platformShutdowns = map[shutdownPlatform]byDefault{
	eksLinux:  {eksLinux, eksLinux2023, 150 * time.Second, 30 * time.Second, "unless a NodeConfig of nodeadm sets others"}, // https://github.com/awslabs/amazon-eks-ami/pull/2390
	gkeNodes:  {gkeNodes, func(n corev1.Node, _ Platform) bool { _, gke := n.Labels["cloud.google.com/gke-nodepool"]; return gke }, 30 * time.Second, 15 * time.Second, "unless the node pool extends it"},
	talos:     {talos, func(n corev1.Node, _ Platform) bool { return strings.HasPrefix(n.Status.NodeInfo.OSImage, "Talos") }, 30 * time.Second, 10 * time.Second, "unless machine.kubelet.extraConfig sets others"},
	kOpsNodes: {kOpsNodes, func(_ corev1.Node, of Platform) bool { return of == KOps }, 30 * time.Second, 10 * time.Second, "unless the cluster has the VPC CNI of AWS, with which it is off, or spec.kubelet sets others"},
}

func (b byDefault) supposed(of string) *Supposed {
	return &Supposed{Kubelet{Of: of, Periods: shutdown(b.total, b.critical)}, string(b.platform), b.unless}
}

// eksLinux2023 reports whether a node has the AMI whose nodeadm sets the periods.
func eksLinux2023(n corev1.Node, _ Platform) bool {
	info := n.Status.NodeInfo
	v, err := version.ParseGeneric(info.KubeletVersion)
	return err == nil && strings.Contains(info.KubeletVersion, "-eks-") && strings.HasPrefix(info.OSImage, "Amazon Linux 2023") && v.AtLeast(version.MustParseGeneric("1.34.0"))
}

// readSupposed notes what the platforms of nodes do by default.
func (d *DNS) readSupposed(nodes []corev1.Node) {
	for _, name := range slices.Sorted(maps.Keys(platformShutdowns)) {
		p := platformShutdowns[name]
		var of []string
		for i := range nodes {
			if p.is(nodes[i], d.Platform) {
				of = append(of, nodes[i].Name)
			}
		}
		if len(of) > 0 {
			d.Supposed = append(d.Supposed, *p.supposed(namesOf(of)))
		}
	}
}

// namesOf are a few names.
func namesOf(names []string) string {
	const few = 3
	if len(names) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
	}
	return strings.Join(names, ", ")
}

// mostKubelets is how many kubelets are asked at most.
const mostKubelets = 100

// readKubelets asks the kubelets of the nodes with a pod of CoreDNS for their configuration, through the API server.
func (d *DNS) readKubelets(ctx context.Context, client kubernetes.Interface) error {
	var nodes []string
	for _, p := range d.Pods {
		if !slices.Contains(nodes, p.Node) {
			nodes = append(nodes, p.Node)
		}
	}
	switch {
	case len(nodes) == 0:
		d.KubeletsUnread = "on which nodes CoreDNS runs is not known"
	case len(nodes) > mostKubelets:
		nodes = nodes[:mostKubelets]
		d.KubeletsUnread = fmt.Sprintf("only %d nodes are asked", mostKubelets)
	}
	for _, node := range nodes {
		text, err := client.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("configz").Do(ctx).Raw()
		why, fatal := unread(err)
		if fatal != nil {
			return fmt.Errorf("read the configuration of the kubelet of %s: %w", node, err)
		}
		var answer struct {
			Config map[string]any `json:"kubeletconfig"`
		}
		if err == nil {
			if err := json.Unmarshal(text, &answer); err != nil || answer.Config == nil {
				why = "its answer has no kubeletconfig"
			}
		}
		if why != "" {
			d.KubeletsUnread = fmt.Sprintf("/configz of node %s: %s", node, why)
			continue
		}
		k, err := kubeletOf(node, answer.Config)
		if err != nil {
			d.KubeletsUnread = fmt.Sprintf("/configz of node %s: %v", node, err)
			continue
		}
		same := slices.IndexFunc(d.Kubelets, func(other Kubelet) bool { return slices.Equal(other.Periods, k.Periods) })
		if same < 0 {
			d.Kubelets = append(d.Kubelets, k)
		} else {
			d.Kubelets[same].Of += ", " + node
		}
	}
	return nil
}

// String is what the kubelet does in words.
func (k Kubelet) String() string {
	var parts []string
	total := time.Duration(0)
	for _, p := range k.Periods {
		total += p.Lasts
		parts = append(parts, fmt.Sprintf("%s for pods of priority %d and above", p.Lasts, p.Priority))
	}
	switch {
	case total == 0:
		return "off: pods end with the operating system"
	case len(k.Periods) == 2 && k.Periods[0].Priority == 0 && k.Periods[1].Priority == criticalPriority:
		return fmt.Sprintf("%s, the last %s of it for critical pods", total, k.Periods[1].Lasts)
	}
	return total.String() + ": " + strings.Join(parts, ", then ")
}

// shutdownText is what is known or supposed of it in words; empty for neither.
func (d DNS) shutdownText() string {
	var parts []string
	for _, k := range d.Kubelets {
		what := k.String()
		if k.Default != nil {
			what = "it sets none of the periods, so it is " + k.Default.String()
		}
		parts = append(parts, k.Of+": "+what)
	}
	for _, s := range d.Supposed {
		if d.KubeletsUnread != "" {
			parts = append(parts, s.Of+": "+s.String())
		}
	}
	return strings.Join(parts, "; ")
}

// String is the supposition in words.
func (s Supposed) String() string {
	return fmt.Sprintf("likely %s, as %s sets it, %s", s.Kubelet, s.Platform, s.Unless)
}

// turn is when the pods with a priority get their SIGTERM at the latest, from the beginning of the shutdown, and how long
// they have then. ok is false if the kubelet ends no pods.
func (k Kubelet) turn(priority int32) (starts, lasts time.Duration, ok bool) {
	for i, p := range k.Periods {
		if i > 0 && priority < p.Priority {
			break
		}
		if i > 0 {
			starts += lasts
		}
		lasts, ok = p.Lasts, true
	}
	total := time.Duration(0)
	for _, p := range k.Periods {
		total += p.Lasts
	}
	return starts, lasts, ok && total > 0
}

// priority is that of the pods of CoreDNS; known is false if its class is another one, whose value is not read.
func (d DNS) priority() (of int32, known bool) {
	pod := d.Workload.Template.Spec
	switch {
	case pod.Priority != nil:
		return *pod.Priority, true
	case pod.PriorityClassName == "system-cluster-critical":
		return criticalPriority, true
	case pod.PriorityClassName == "system-node-critical":
		return criticalPriority + 1000, true
	}
	return 0, pod.PriorityClassName == ""
}

// lintShutdown checks whether CoreDNS terminates without a loss when its node shuts down and the kubelet ends the pods.
func (d DNS) lintShutdown(c coredns.Corefile, s coredns.Settings) (found []Finding) {
	if c.LameduckUnknown != "" || len(c.Health) == 0 {
		return nil // other rules report it
	}
	for _, k := range d.Kubelets {
		switch {
		case k.Default == nil:
			found = append(found, d.lintKubelet(k, s)...)
		case slices.ContainsFunc(d.Supposed, func(s Supposed) bool { return s.Platform == k.Default.Platform }): // the nodes show that it is
			k.Periods = k.Default.Periods
			found = append(found, d.lintKubelet(k, s)...)
		default:
			found = append(found, d.lintSupposed(*k.Default, s, k.Of+" sets none of the periods")...)
		}
	}
	if d.KubeletsUnread == "" {
		return found
	}
	if len(d.Supposed) == 0 {
		return append(found, unknownShutdown("what the kubelet does when its node shuts down is not known: %s", d.KubeletsUnread)...)
	}
	for _, of := range d.Supposed {
		found = append(found, d.lintSupposed(of, s, "not read: "+d.KubeletsUnread)...)
	}
	return found
}

// lintCritical checks what the kubelets do to the CoreDNS of a Corefile alone, if it has the usual priority.
func (d DNS) lintCritical(s coredns.Settings) (found []Finding) {
	d.Workload.Template.Spec.PriorityClassName = "system-cluster-critical"
	for _, k := range d.Kubelets {
		if k.Default != nil {
			k.Periods = k.Default.Periods
		}
		for _, f := range d.lintKubelet(k, s) {
			f.Unknown, f.Got = true, f.Got+", if CoreDNS has the class system-cluster-critical, as is usual: "+d.WorkloadUnread
			found = append(found, f)
		}
	}
	return found
}

// lintSupposed checks what a supposition does to CoreDNS: what it breaks is unknown.
func (d DNS) lintSupposed(of Supposed, s coredns.Settings, why string) (found []Finding) {
	for _, f := range d.lintKubelet(of.Kubelet, s) {
		f.Unknown, f.Got = true, fmt.Sprintf("%s; that is %s; %s", f.Got, of, why)
		found = append(found, f)
	}
	return found
}

// unknownShutdown is the finding that it is not known what the kubelet does to CoreDNS.
func unknownShutdown(why string, args ...any) []Finding {
	return []Finding{unknown("node-shutdown", why, args...)}
}

// noticeLead is how long before its end a spot instance gets its notice.
const noticeLead = 2 * time.Minute

// lintKubelet checks what one configuration does to CoreDNS.
func (d DNS) lintKubelet(k Kubelet, s coredns.Settings) (found []Finding) {
	priority, known := d.priority()
	starts, lasts, on := k.turn(priority)
	if !on {
		return nil
	}
	if !known {
		return unknownShutdown("the priority of class %s, by which the kubelet of %s ends CoreDNS, is not known", d.Workload.Template.Spec.PriorityClassName, k.Of)
	}
	preStop, _ := d.preStop()
	ends, of := preStop+s.Lameduck.D(), k.Of+": "+k.String()
	hook := ""
	if preStop > 0 {
		hook = fmt.Sprintf("preStop %s and ", preStop)
	}
	if ends >= lasts {
		found = append(found, breaks("lameduck-within-node-shutdown", "%slameduck %s, and the kubelet kills CoreDNS %s after its SIGTERM (%s)", hook, s.Lameduck.D(), lasts, of).fixedBy(max(0, lasts-preStop), ends+ShutdownTime))
	}
	if d.readiness() != nil && s.Lameduck.D() < s.Readiness.Unready()+ProxySync {
		found = append(found, breaks("lameduck-outlasts-readiness-at-node-shutdown", "lameduck %s, and a pod stays Ready for up to %s (%s x %d) after the kubelet has sent SIGTERM (%s)",
			s.Lameduck.D(), s.Readiness.Unready(), s.Readiness.Period.D(), s.Readiness.FailureThreshold, of).fixedBy(d.propose(s).Lameduck.D(), d.propose(s).Readiness.Period.D(), d.propose(s).Readiness.FailureThreshold))
	}
	if starts+ends > noticeLead {
		found = append(found, breaks("node-shutdown-ends-dns-in-time", "CoreDNS gets its SIGTERM up to %s after the shutdown begins, behind the pods of lower priority, and ends up to %s after it (%s)", starts, starts+ends, of))
	}
	for i := range found {
		if k.from.in != nil {
			found[i].kubelet = &k.from
		}
	}
	return found
}
