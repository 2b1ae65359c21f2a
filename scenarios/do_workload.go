package scenarios

import (
	"fmt"
	"regexp"

	"github.com/spotdrill/spotdrill/framework/history"
)

var objectName = regexp.MustCompile(`^[a-z]([a-z0-9-]*[a-z0-9])?$`)

// workloadActions change what runs on nodes.
func workloadActions() map[Verb]action {
	return map[Verb]action{Delete: {
		needs: []string{"node"}, effect: onNode, validate: operated,
		text: func(d Do) string { return "the drill's pods on " + d.Node + " are deleted by somebody else" },
	}, Create: {
		needs: []string{"daemonSet", "memory"}, effect: alone(Launches),
		text: func(d Do) string {
			return fmt.Sprintf("DaemonSet %s is created, whose pods request %s of memory", d.DaemonSet, d.Memory)
		},
		validate: func(d Do, where string, in *scope, p *problems) {
			if !objectName.MatchString(d.DaemonSet) {
				p.add(where+".daemonSet", "%q is no name of an object: lower case letters, digits and hyphens", d.DaemonSet)
			}
			in.once(where, d.DaemonSet, in.DaemonSets, p)
			in.DaemonSets = append(in.DaemonSets, d.DaemonSet)
			if !memory.MatchString(d.Memory) {
				p.add(where+".memory", "%q is no amount of memory such as 2Gi or 512Mi", d.Memory)
			}
		},
	}}
}

// budgetActions change a PodDisruptionBudget of the workload, or delete a second one.
func budgetActions() map[Verb]action {
	return map[Verb]action{
		Configure: {
			needs: []string{"name", "pods", "minAvailable"}, validate: validateBudgetChange, effect: onNode,
			text: func(d Do) string {
				return fmt.Sprintf("budget of %s: minAvailable %d", d.Pods, *orZero(d.MinAvailable))
			},
		},
		Delete: {
			needs: []string{"name", "pods", "minAvailable", "budget"}, effect: onNode,
			text: func(d Do) string { return fmt.Sprintf("budget %s of %s is deleted", d.Budget, d.Pods) },
			validate: func(d Do, where string, in *scope, p *problems) {
				validateBudgetChange(d, where, in, p)
				oneOf(p, where+".budget", d.Budget, in.Scenario.Workload.second())
			},
		},
	}
}

func validateBudgetChange(d Do, where string, in *scope, p *problems) {
	in.BudgetChanges.define(where, d.Name, p)
	oneOf(p, where+".pods", d.Pods, in.Scenario.Workload.budgeted())
	p.atLeast0(where+".minAvailable", *orZero(d.MinAvailable))
}

// orZero is the value, or zero if there is none.
func orZero[T any](value *T) *T {
	if value == nil {
		return new(T)
	}
	return value
}

// Bounds of the virtual nodes: each has a range of 256 pod addresses, and EC2 has no larger instances.
const (
	maxVirtualNodes = 100
	maxVirtualCores = 896
	virtualCores    = 4
)

// clusterActions change the size of the cluster. kwok keeps its virtual nodes Ready, and no pod of the
// drill runs there. The drill continues when they are Ready, or gone.
func clusterActions() map[Verb]action {
	return map[Verb]action{Scale: {
		needs: []string{"nodes"}, allows: []string{"cores"}, effect: alone(AllNodes),
		text: func(d Do) string {
			nodes, cores := d.VirtualNodes()
			if nodes == 0 {
				return "the virtual nodes leave the cluster"
			}
			return fmt.Sprintf("the cluster has %s with %s each", history.Count(nodes, "virtual node"), history.Count(cores, "core"))
		},
		validate: func(d Do, where string, _ *scope, p *problems) {
			if n := *orZero(d.Nodes); n < 0 || n > maxVirtualNodes {
				p.add(where+".nodes", "%d is not within 0 to %d", n, maxVirtualNodes)
			}
			if d.Cores < 0 || d.Cores > maxVirtualCores {
				p.add(where+".cores", "%d is not within 1 to %d", d.Cores, maxVirtualCores)
			}
		},
	}}
}

// VirtualNodes is how many virtual nodes the cluster is scaled to, and how many cores each has.
func (d Do) VirtualNodes() (nodes, cores int) {
	if d.Cores == 0 {
		return *orZero(d.Nodes), virtualCores
	}
	return *orZero(d.Nodes), d.Cores
}

// Grows reports whether the cluster has virtual nodes in the drill.
func (s Scenario) Grows() bool { return s.Fleet != nil || len(s.Actions(OnCluster, Scale)) > 0 }
