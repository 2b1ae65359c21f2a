// Package addon finds what the upgrade of an add-on of Amazon EKS would take from a cluster. EKS
// applies the manifest of the next version by server-side apply, and how it resolves conflicts
// decides what is left of the values that somebody else has set:
// https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-field-management.html.
//
// Preview reads a cluster, and asks its API server by dry runs: nothing changes.
package addon

// Manager is the field manager by which EKS applies add-ons.
const Manager = "eks"
