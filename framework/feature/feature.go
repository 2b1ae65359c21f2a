// Package feature names what an interruption handler can claim to act on.
// Scenarios say which feature they need, descriptions of handlers which they
// claim.
package feature

// Names lists the features. "rebalance-event" announces a recommendation,
// "rebalance-drain" acts on it; "scheduled-change-at-once" drains when a scheduled change is
// announced, however far ahead it is; "scheduled-change-status" leaves alone what the
// statusCode of an event says is over; "karpenter-order" evicts in the order of Karpenter.
func Names() []string {
	return []string{"spot", "state-change", "scheduled-change", "scheduled-change-at-once", "scheduled-change-status", "rebalance-event", "rebalance-drain", "capacity-reservation", "karpenter-order"}
}
