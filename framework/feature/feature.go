// Package feature names what an interruption handler can claim to act on.
// Scenarios say which feature they need, descriptions of handlers which they
// claim.
package feature

// Names lists the features. "rebalance-event" announces a recommendation,
// "rebalance-drain" acts on it; "karpenter-order" evicts in the order of Karpenter.
func Names() []string {
	return []string{"spot", "state-change", "scheduled-change", "rebalance-event", "rebalance-drain", "capacity-reservation", "karpenter-order"}
}
