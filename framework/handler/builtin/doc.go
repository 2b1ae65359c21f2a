// Package builtin is spotdrill's own interruption handler: it receives notices from an
// SQS queue and drains the nodes of the instances that they name, or it runs on each node, reads
// the metadata of its own instance, and drains that node.
//
// Like Karpenter's interruption controller
// (https://karpenter.sh/docs/concepts/disruption/#interruption) it decides which
// messages to act on and to delete, and like `kubectl drain` it evicts. Its own rules:
//
//   - A notice is settled when the drain is recorded on the node: cordon, taint and the
//     annotation spotdrill.dev/draining in one patch. Only then is its message deleted.
//     So a handler that is killed at any moment either receives the message again or
//     finds the record when it starts, and continues. A draining handler updates the
//     record every few seconds. If it stops doing so, other replicas take over.
//   - The record also identifies duplicate notices, even across replicas, because the
//     patch names the node's resourceVersion. A new notice after the end of the drain
//     drains again if pods are left. Removing the annotation, or cordon and taint,
//     restores the node: its drain ends, and the next notice drains it again.
//   - The Eviction API decides. An eviction that a PodDisruptionBudget refuses is
//     retried every second until the node is empty or gone.
//   - Critical pods (priority of system-cluster-critical and above) follow when the
//     others are gone, or after Config.CriticalAfter, whichever comes first: cluster DNS
//     should outlive its clients on the node, but needs its own share of the two minutes.
//   - Daemon, mirror and finished pods, and pods that tolerate the taint, stay.
//
// Node objects are never deleted and instances never terminated.
package builtin
