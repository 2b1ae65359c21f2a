// Package feature names what an interruption handler can claim to act on.
// Scenarios show which feature they need, descriptions of handlers which they
// claim.
package feature

import "slices"

// The features of a handler that launches nodes.
const (
	// Launch launches nodes for pods that find none.
	Launch = "launch"
	// Limits launches no more than its configuration permits.
	Limits = "limits"
	// PodENI launches nodes on which pods can have a network interface of their own.
	PodENI = "pod-eni"
	// Drift replaces nodes that are not as the handler is configured now.
	Drift = "drift"
	// Consolidation replaces nodes by cheaper ones.
	Consolidation = "consolidation"
	// MultiNodeConsolidation replaces several nodes by one.
	MultiNodeConsolidation = "multi-node-consolidation"
	// SpotConsolidation replaces spot nodes by cheaper spot nodes.
	SpotConsolidation = "spot-consolidation"
	// Emptiness removes nodes without a pod that would have to move.
	Emptiness = "emptiness"
	// Expiration removes nodes that reached an age, whether or not others are Ready.
	Expiration = "expiration"
	// DaemonSets chooses nodes that have room for the DaemonSets that are there when it launches
	// them.
	DaemonSets = "daemon-sets"
	// DisruptionBudget removes as many nodes at a time, and for such reasons, as its
	// configuration permits.
	DisruptionBudget = "disruption-budget"
)

// TwoHandlers is drilled together with a second handler.
const TwoHandlers = "two-handlers"

// Reconfigured lists the features whose drills change the handler's configuration in their
// middle.
func Reconfigured() []string {
	return []string{Limits, PodENI, Drift, Consolidation, MultiNodeConsolidation, SpotConsolidation, Emptiness, Expiration, DaemonSets, DisruptionBudget}
}

// Launching reports whether the handler launches nodes in drills of the feature.
func Launching(feature string) bool {
	return feature == Launch || slices.Contains(Reconfigured(), feature)
}

// Names lists the features. "rebalance-event" announces a recommendation,
// "rebalance-drain" acts on it; "scheduled-change-at-once" drains when a scheduled change is
// announced, however far ahead it is; "scheduled-change-status" leaves alone what is over
// by the statusCode of an event; "karpenter-order" evicts in the order of Karpenter;
// "without-queue" also runs if no queue is configured, and is then blind to notices;
// "instance-returns" keeps the node of an instance that is stopped, for when it starts again;
// "lifecycle-action" completes lifecycle actions of Auto Scaling; "status-check" acts on what EC2
// finds when it is asked for the status of instances; "capacity-block" drains the nodes of a capacity
// block that ends.
func Names() []string {
	return slices.Concat(
		[]string{"spot", "state-change", "scheduled-change", "scheduled-change-at-once", "scheduled-change-status", "rebalance-event", "rebalance-drain", "capacity-reservation", "karpenter-order", Launch},
		Reconfigured(), []string{"without-queue", "instance-returns", TwoHandlers, "lifecycle-action", "status-check", "capacity-block"})
}
