package scenarios

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Workload is what else runs on the spot nodes: pods that a drain has to move or to
// leave.
type Workload struct {
	// Replicas is the size of a Deployment named app, spread over the spot nodes.
	Replicas int `yaml:"replicas,omitempty"`
	// Spill allows its pods on the on-demand node too, for drills that leave no spot
	// node.
	Spill bool `yaml:"spill,omitempty"`
	// Launched runs its pods on the nodes that the handler launches for CoreDNS, in place of the
	// spot nodes.
	Launched bool `yaml:"launched,omitempty"`
	// Fleet runs its pods on the nodes of the fleet, in place of the spot nodes.
	Fleet bool `yaml:"fleet,omitempty"`
	// Daemon adds a DaemonSet on every worker. A drain must leave its pods.
	Daemon bool `yaml:"daemon,omitempty"`
	// Serves makes the pods of Replicas serve HTTP behind a Service.
	Serves *Serves `yaml:"serves,omitempty"`
	// SecurityGroups gives the pods of Replicas security groups of their own, for which both
	// values of the add-on vpc-cni were set by hand; docs/addons.md describes what is emulated.
	SecurityGroups bool `yaml:"securityGroups,omitempty"`
	// BesideDNS adds a UDP Service of these pods at the address of kube-dns, on another
	// port: kube-proxy must distinguish the two.
	BesideDNS bool `yaml:"besideDNS,omitempty"`
	// Pods are further pods, at most one entry of each kind.
	Pods []Pods `yaml:"pods,omitempty"`
	// Budgets are PodDisruptionBudgets. A group of pods can have a second one under another
	// name: the API server then refuses every eviction of its pods, with 500.
	Budgets []Budget `yaml:"budgets,omitempty"`
}

// Serves is how the pods of Workload.Replicas start and end. They answer HTTP on port 8080, and
// close their listener when they get SIGTERM.
type Serves struct {
	// StartsIn is how long a pod needs from its start until it answers.
	StartsIn strict.Duration `yaml:"startsIn,omitempty"`
	// PreStop is how long a pod that is deleted goes on before it gets SIGTERM: its preStop hook
	// sleeps for so many whole seconds. Its grace period is 10 s longer.
	PreStop strict.Duration `yaml:"preStop,omitempty"`
}

// maxServes bounds both times of Serves.
const maxServes = time.Minute

func (s Serves) validate(p *problems) {
	for field, d := range map[string]strict.Duration{"startsIn": s.StartsIn, "preStop": s.PreStop} {
		if d.D() < 0 || d.D() > maxServes || d.D()%time.Second != 0 {
			p.add("workload.serves."+field, "%s is not a whole number of seconds within 0s to %s", d.D(), maxServes)
		}
	}
}

// App is the name of the pods of Workload.Replicas in budgets and checks. Further pods
// go by their kind.
const App = "app"

// Pods are pods that start on a certain spot node, or on a launched one. Their replacements
// prefer the same node but can run on any other of its capacity.
type Pods struct {
	// Kind is the kind of the pods; docs/workload.md describes each.
	Kind string `yaml:"kind"`
	Node string `yaml:"node"`
}

// PodKinds lists the kinds of further pods. Each has a manifest in
// framework/run/manifests/pods.
func PodKinds() []string {
	return []string{
		"slow",           // takes 20 s of its grace period of 30 s to stop
		"deaf",           // two bare pods that ignore SIGTERM for their grace period of 10 s
		"critical",       // has the priority class system-cluster-critical
		"bare",           // has no controller
		"empty-dir",      // has an emptyDir volume
		"job",            // belongs to a Job, which starts it again elsewhere
		"stateful-set",   // its replacement has the same name
		"two-containers", // one of them takes 8 s to stop
		"tolerating",     // belongs to a Deployment and tolerates node.kubernetes.io/unschedulable
		"static",         // a manifest file on the node; the API shows a mirror pod
		"unready",        // runs and never becomes Ready
		"long",           // takes 40 s of its grace period of 60 s to stop
		"endless",        // ignores SIGTERM, and has a grace period of 10 min
		"finalizer",      // bare, with a finalizer that nobody removes
		"pending",        // bare, bound to the node; its image is nowhere
		"finished",       // bare, has succeeded
	}
}

// Budget is a PodDisruptionBudget.
type Budget struct {
	// Name is the name of the PodDisruptionBudget; left out, it is that of its pods.
	Name string `yaml:"name,omitempty"`
	Pods string `yaml:"pods"`
	// MinAvailable is how many of the pods must stay Ready.
	MinAvailable int `yaml:"minAvailable"`
	// UnhealthyPodEvictionPolicy is the field of the PodDisruptionBudget with that name;
	// left out, it is IfHealthyBudget.
	UnhealthyPodEvictionPolicy string `yaml:"unhealthyPodEvictionPolicy,omitempty"`
}

// ID is the name of the PodDisruptionBudget.
func (b Budget) ID() string { return cmp.Or(b.Name, b.Pods) }

// UnhealthyPodEvictionPolicies lists the policies that Kubernetes has.
func UnhealthyPodEvictionPolicies() []string { return []string{"IfHealthyBudget", "AlwaysAllow"} }

// Groups returns the names of the groups of pods in this workload.
func (w Workload) Groups() []string {
	var out []string
	if w.Replicas > 0 {
		out = append(out, App)
	}
	for _, pods := range w.Pods {
		out = append(out, pods.Kind)
	}
	return out
}

func (w Workload) validate(nodes map[string]Pick, placement coredns.Placement, p *problems) {
	p.atLeast0("workload.replicas", w.Replicas)
	if w.BesideDNS && w.Replicas == 0 {
		p.add("workload.besideDNS", "needs replicas, whose pods its Service selects")
	}
	if w.SecurityGroups && (w.Replicas == 0 || w.Launched) {
		p.add("workload.securityGroups", "needs replicas, and is not allowed with launched")
	}
	if w.Launched && placement != coredns.Launched {
		p.add("workload.launched", "is only allowed with coredns.placement %s: otherwise the handler launches no nodes", coredns.Launched)
	}
	for field, set := range map[string]bool{"launched": w.Launched, "fleet": w.Fleet} {
		if set && (w.Replicas == 0 || w.Spill) {
			p.add("workload."+field, "needs replicas, and is not allowed with spill")
		}
	}
	if w.Fleet && (w.Launched || w.Serves != nil || w.SecurityGroups) {
		p.add("workload.fleet", "is not allowed with launched, serves or securityGroups: nothing runs on virtual nodes")
	}
	if w.Serves != nil {
		w.Serves.validate(p)
		if w.Replicas == 0 {
			p.add("workload.serves", "needs replicas, whose pods serve")
		}
	}
	for i, pods := range w.Pods {
		where := fmt.Sprintf("workload.pods[%d]", i)
		oneOf(p, where+".kind", pods.Kind, PodKinds())
		oneOf(p, where+".node", pods.Node, slices.Sorted(maps.Keys(nodes)))
		if pick, ok := nodes[pods.Node]; ok && pick.Capacity != "spot" && pick.Launched == nil {
			p.add(where+".node", "%q has capacity %s, and these pods run on spot or on a launched node", pods.Node, pick.Capacity)
		}
		if slices.ContainsFunc(w.Pods[:i], func(other Pods) bool { return other.Kind == pods.Kind }) {
			p.add(where+".kind", "%q is used twice", pods.Kind)
		}
	}
	for i, budget := range w.Budgets {
		where := fmt.Sprintf("workload.budgets[%d]", i)
		oneOf(p, where+".pods", budget.Pods, w.Groups())
		if slices.ContainsFunc(w.Budgets[:i], func(other Budget) bool { return other.ID() == budget.ID() }) {
			p.add(where+".pods", "%q has a budget already; a second one, with which its pods cannot be evicted, requires a name of its own", budget.ID())
		}
		p.atLeast0(where+".minAvailable", budget.MinAvailable)
		oneOfIfSet(p, where+".unhealthyPodEvictionPolicy", budget.UnhealthyPodEvictionPolicy, UnhealthyPodEvictionPolicies())
	}
}

// second returns the names of the budgets that are not the first of their pods.
func (w Workload) second() []string {
	var out []string
	for _, budget := range w.Budgets {
		if budget.ID() != budget.Pods {
			out = append(out, budget.ID())
		}
	}
	return out
}

// budgeted returns the groups of pods that have a budget.
func (w Workload) budgeted() []string {
	out := make([]string, 0, len(w.Budgets))
	for _, budget := range w.Budgets {
		out = append(out, budget.Pods)
	}
	return out
}
