// Package launch makes nodes of the instances that EC2 launches for the cluster, as a real
// instance's boot does, and ends them with their instances. A spare worker of the cluster is
// joined as the node, with the instance's providerID, zone, type and size.
package launch
