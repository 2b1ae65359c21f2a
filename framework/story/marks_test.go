package story

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
)

// What handlers and other tools write about a pod that a budget keeps, and about one
// that it does not.
func TestWhatReportsABlockedEviction(t *testing.T) {
	pods := []Pod{{Events: []history.Event{history.NewPodPresent("shop/failover-7d9f", "", "", "")}}}
	for _, x := range []struct {
		reason, note string
		want         bool
	}{
		{"EvictionBlocked", "Pod shop/failover-7d9f: Cannot evict pod as it would violate the pod's disruption budget.", true},
		{"FailedDraining", "Failed to drain node, evicting pod violates a PDB (Pod=shop/failover-7d9f)", true},
		{"DisruptionBlocked", "Pdb prevents pod evictions (PodDisruptionBudget=[shop/failover])", true},
		{"FailedEviction", "error when evicting pods/failover-7d9f -n shop: Too Many Requests", true},
		{"EvictionRefused", "shop/failover-7d9f", true},
		{"Draining", "still waiting for failover-7d9f: 429", true},
		{"Draining", "Evicting pod shop/failover-7d9f (notice 1a429b00)", false},

		{"FailedDraining", "Failed to drain node, 2 pods are waiting to be evicted", false}, // which?
		{"Evicting", "Evicting pod shop/failover-7d9f", false},
		{"Evicting", "Evicting pod shop/failover-7d9f by its PodDisruptionBudget", false},
		{"PodEviction", "Pod evicted due to node drain (node worker-2)", false},
		{"Evicted", "Evicted pod: Forceful Termination", false},
		{"CordonAndDrain", "Node successfully cordoned and drained", false},
		{"Nominated", "Pod should schedule on: node/worker-2", false},
	} {
		for _, about := range []history.Event{history.NewClusterEvent("Node", x.reason, history.Node("worker-1")), history.NewClusterEvent("Pod", x.reason, history.Pod("shop/failover-7d9f"))} {
			about.Note = x.note
			if got := reportsBlock(about, "worker-1", pods); got != x.want {
				t.Errorf("%s %q on %s reports a blocked eviction: %t", x.reason, x.note, about.Node+about.Pod, got)
			}
		}
	}
}
