package scenarios

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spotdrill/spotdrill/framework/strict"
)

// Workload is what else runs on the spot nodes: pods that may be evicted.
type Workload struct {
	// Replicas of a Deployment, "app", spread over the spot nodes.
	Replicas int `yaml:"replicas,omitempty"`
	// Spill lets them run on the on-demand node too, for when no spot node is left.
	Spill bool `yaml:"spill,omitempty"`
	// Daemon adds a DaemonSet on every worker, whose pods a drain must leave.
	Daemon bool `yaml:"daemon,omitempty"`
	// Pods are further ones, each of a kind of its own.
	Pods []Pods `yaml:"pods,omitempty"`
	// Budgets are PodDisruptionBudgets, one at most for a group of pods.
	Budgets []Budget `yaml:"budgets,omitempty"`
}

// App names the pods of Workload.Replicas in budgets and checks; further ones go
// by their kind.
const App = "app"

// Pods is a workload that starts on a node. What replaces its pods prefers that
// node as well, and may land on any other spot node.
type Pods struct {
	Kind string `yaml:"kind"` // one of PodKinds
	Node string `yaml:"node"`
}

// PodKinds lists the further pods; framework/run/manifests/pods has each.
func PodKinds() []string {
	return []string{
		"slow",           // takes 20 s of its 30 s of grace to stop
		"deaf",           // two bare pods that ignore SIGTERM for their 10 s of grace
		"critical",       // of system-cluster-critical
		"bare",           // has no controller
		"empty-dir",      // has a volume that goes with it
		"job",            // a Job's, which starts it again elsewhere
		"stateful-set",   // its replacement has the same name
		"two-containers", // one of them takes 8 s to stop
		"tolerating",     // a Deployment's that tolerates node.kubernetes.io/unschedulable
		"static",         // a file in the node; the API has its mirror
		"unready",        // runs and never becomes Ready
	}
}

// Budget is a PodDisruptionBudget.
type Budget struct {
	Pods string `yaml:"pods"` // app, or a kind of further pods
	// MinAvailable is how many of the pods must stay Ready.
	MinAvailable int `yaml:"minAvailable"`
	// UnhealthyPodEvictionPolicy is Kubernetes' own, IfHealthyBudget where it is
	// left out.
	UnhealthyPodEvictionPolicy string `yaml:"unhealthyPodEvictionPolicy,omitempty"`
}

// BudgetChange gives a budget another minAvailable, some time after a notice was
// put.
type BudgetChange struct {
	// Name is how checks refer to it.
	Name         string          `yaml:"name"`
	Pods         string          `yaml:"pods"`
	MinAvailable int             `yaml:"minAvailable"`
	At           string          `yaml:"at"` // name of a notice
	After        strict.Duration `yaml:"after"`
}

// Groups are the names that pods go by in this workload.
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

func (w Workload) validate(nodes map[string]Pick, p *problems) {
	if w.Replicas < 0 {
		p.add("workload.replicas", "%d is less than 0", w.Replicas)
	}
	for i, pods := range w.Pods {
		where := fmt.Sprintf("workload.pods[%d]", i)
		p.oneOf(where+".kind", pods.Kind, PodKinds())
		p.oneOf(where+".node", pods.Node, slices.Sorted(maps.Keys(nodes)))
		if pick, ok := nodes[pods.Node]; ok && pick.Capacity != "spot" {
			p.add(where+".node", "%q has capacity %s, and these pods run on spot", pods.Node, pick.Capacity)
		}
		if slices.ContainsFunc(w.Pods[:i], func(other Pods) bool { return other.Kind == pods.Kind }) {
			p.add(where+".kind", "%q is used twice", pods.Kind)
		}
	}
	for i, budget := range w.Budgets {
		where := fmt.Sprintf("workload.budgets[%d]", i)
		p.oneOf(where+".pods", budget.Pods, w.Groups())
		if slices.ContainsFunc(w.Budgets[:i], func(other Budget) bool { return other.Pods == budget.Pods }) {
			p.add(where+".pods", "%q has a budget already, and a pod of two cannot be evicted", budget.Pods)
		}
		if budget.MinAvailable < 0 {
			p.add(where+".minAvailable", "%d is less than 0", budget.MinAvailable)
		}
		if budget.UnhealthyPodEvictionPolicy != "" {
			p.oneOf(where+".unhealthyPodEvictionPolicy", budget.UnhealthyPodEvictionPolicy, []string{"IfHealthyBudget", "AlwaysAllow"})
		}
	}
}

// budgeted are the groups of pods that have a budget.
func (w Workload) budgeted() []string {
	out := make([]string, 0, len(w.Budgets))
	for _, budget := range w.Budgets {
		out = append(out, budget.Pods)
	}
	return out
}

func (c BudgetChange) validate(where string, budgeted, notices, earlier []string, p *problems) {
	switch {
	case c.Name == "":
		p.add(where+".name", "must not be empty")
	case slices.Contains(earlier, c.Name):
		p.add(where+".name", "%q is used twice", c.Name)
	}
	p.oneOf(where+".pods", c.Pods, budgeted)
	p.oneOf(where+".at", c.At, notices)
	if c.MinAvailable < 0 {
		p.add(where+".minAvailable", "%d is less than 0", c.MinAvailable)
	}
}

// changeNames are the names of the budget's changes among the steps.
func changeNames(steps []Step) []string {
	var out []string
	for _, step := range steps {
		if step.Budget != nil {
			out = append(out, step.Budget.Name)
		}
	}
	return out
}
