// Package builtin is spotdrill's own interruption handler: it takes notices
// from an SQS queue and drains the nodes whose instances they name.
//
// It follows Karpenter's interruption controller
// (https://karpenter.sh/docs/concepts/disruption/#interruption) in what it acts
// on and what it deletes, and `kubectl drain` in how it evicts. Its own rules:
//
//   - A notice is settled once the drain is recorded on the node: cordon, taint
//     and the annotation spotdrill.dev/draining in one patch. Only then is its
//     message deleted, so a handler that is killed at any moment either sees the
//     message again or finds the record when it starts, and goes on. Who drains
//     says so in the record every few seconds; a drain of which nobody does, other
//     replicas take over.
//   - The record is also what makes a second notice a duplicate, across replicas
//     too, because the patch names the node's resourceVersion. Another notice
//     after the drain's end drains again where pods are left. Taking the
//     annotation away, or cordon and taint, restores the node: its drain ends,
//     and the next notice drains it again.
//   - The Eviction API decides; what a PodDisruptionBudget refuses is asked for
//     again every second until the node is empty or gone.
//   - Critical pods (priority of system-cluster-critical and above) follow when
//     the others are gone, or after Config.CriticalAfter, whichever comes first:
//     cluster DNS should outlive its clients on the node, but needs its own
//     share of the two minutes.
//   - Daemon, mirror and finished pods, and pods that tolerate the taint, stay.
//
// Node objects are never deleted and instances never terminated.
package builtin
