package coredns

import "fmt"

// AutoScaling is the range within which Amazon EKS scales the add-on coredns. It counts nodes
// and cores, not queries: https://docs.aws.amazon.com/eks/latest/userguide/coredns-autoscaling.html.
type AutoScaling struct {
	// Min is the fewest replicas, 1 to 10.
	Min int `yaml:"min"`
	// Max is the most replicas, min to 10.
	Max int `yaml:"max"`
}

// String is the range in words, "" without one.
func (a AutoScaling) String() string {
	if a == (AutoScaling{}) {
		return ""
	}
	return fmt.Sprintf("%d to %d", a.Min, a.Max)
}

// What one replica is for, by the same page.
const (
	NodesPerReplica = 16
	CoresPerReplica = 256
)

// MostReplicas is the Max that the add-on has of its own.
const MostReplicas = 10

// Replicas is how many a cluster of that size gets.
func (a AutoScaling) Replicas(nodes, cores int) int {
	return min(max(a.Min, ceil(nodes, NodesPerReplica), ceil(cores, CoresPerReplica)), a.Max)
}

func ceil(n, per int) int { return (n + per - 1) / per }

// Next is the next step from a number of replicas to the wanted one: up at once, and down by a
// third at most. There are three minutes between two steps down.
func (AutoScaling) Next(now, wanted int) int {
	return max(wanted, now-max(1, now*33/100))
}
