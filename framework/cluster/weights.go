package cluster

import (
	"context"
	"path"
	"strings"

	"github.com/spotdrill/spotdrill/framework/nodes"
)

// The weights of the nodes' containers, as the engine takes them: in cpu.shares, whose default is 1024. On cgroup v2 the
// engine's runtime converts them to cpu.weight, whose default is 100, and each version in its own way: the last column has
// what runc 1.4 and the kubelet of Kubernetes 1.37 make of them.
//
// CPU time is divided again at each level of control groups, by the weights of the groups
// there that have something to run. A CoreDNS gets some only if each group above it does:
//
//	level            group             cpu.shares   next to it                                cpu.weight
//	the host         engine's group     8 x 1024    programs of the host, 1024 each           800, and 100
//	engine's group   a worker          16 x 1024    LocalStack 1024                           942, and 100
//	                 control plane      4 x 1024                                              303
//	a node           kubelet.slice     16 x 1024    system.slice (containerd, journald) 1024  1600, and 100
//	kubelet.slice    kubepods          cores x 1024 kubelet.service 102                       for 2 cores 79
//	kubepods         burstable         sum of the CPU requests of its pods; besteffort 2      besteffort 1
//	burstable        a pod             its CPU request: 102 for CoreDNS                       4 for CoreDNS
//
// The engine's group is not raised if it is system.slice, which has the services of the host too: so it is with Docker and
// systemd. The nodes then still come before each of those services. Weights reports what each group really has.
//
// The engine's group is raised by engine.RaiseParent, kubelet.slice by a
// file that the nodes mount (kind.Mounted). The last three levels belong to the kubelet,
// which writes them again at each change of a pod. It also reads a pod's weight back as
// the CPU that the pod was given: the scheduler then preempts others for it.
const (
	workerShares       = "16384"
	controlPlaneShares = "4096" // it serves no queries
)

// RaiseWeights gives the nodes most of the CPU time when other containers need it too: a CoreDNS
// without CPU time for a tenth of a second drops queries, and a prober without it measures
// itself. Drills can be played without it, so an engine that cannot do it is no error:
// Weights reports that.
func (c *Cluster) RaiseWeights(ctx context.Context) error {
	for _, n := range c.Nodes {
		if err := c.raiseWeight(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// raiseWeight is needed after each start: Podman does not keep changes to a running container.
func (c *Cluster) raiseWeight(ctx context.Context, n Node) error {
	shares := workerShares
	if n.Capacity == nodes.ControlPlane {
		shares = controlPlaneShares
	}
	if _, err := c.engine.Run(ctx, "update", "--cpu-shares", shares, n.Name); err != nil {
		c.notRaised = err
	}
	return ctx.Err()
}

// weighed are the groups whose weights are reported, by their paths in a node. "." is the
// node's container. The others have the names that kind gives them.
func weighed() []string {
	return []string{".", "system.slice", "kubelet.slice", "kubelet.slice/kubelet.service", "kubelet.slice/kubelet-kubepods.slice"}
}

// readWeights prints, inside a node, the weights of the groups that are its arguments.
const readWeights = `cd /sys/fs/cgroup; file=cpu.weight
if [ ! -e cgroup.controllers ]; then cd cpu; file=cpu.shares; fi
for group; do if [ -e "$group/$file" ]; then echo "$group $(cat "$group/$file")"; fi; done`

// Weights returns in words which CPU weights the nodes have, or why they were not raised.
func (c *Cluster) Weights(ctx context.Context) string {
	if c.notRaised != nil {
		return "nodes not raised: " + c.notRaised.Error()
	}
	var read []nodeWeights
	command := append([]string{"sh", "-c", readWeights, "sh"}, weighed()...)
	for _, n := range c.Nodes {
		out, err := c.engine.Exec(ctx, n.Name, nil, command...)
		if err != nil {
			return "weights of nodes unknown: " + err.Error()
		}
		read = append(read, nodeWeights{strings.TrimPrefix(n.Name, c.Name+"-"), out})
	}
	return weightsInWords(read)
}

// nodeWeights is what readWeights printed in a node.
type nodeWeights struct{ node, printed string }

// weightsInWords names nodes with the same weights together.
func weightsInWords(read []nodeWeights) string {
	var order []string
	nodes := map[string][]string{}
	for _, r := range read {
		words := groupsInWords(r.printed)
		if nodes[words] == nil {
			order = append(order, words)
		}
		nodes[words] = append(nodes[words], r.node)
	}
	for i, words := range order {
		order[i] = strings.Join(nodes[words], ", ") + ": " + words
	}
	return strings.Join(order, "; ")
}

func groupsInWords(printed string) string {
	var words []string
	for line := range strings.Lines(printed) {
		group, weight, _ := strings.Cut(strings.TrimSpace(line), " ")
		if group == "." {
			group = "container"
		}
		words = append(words, path.Base(group)+" "+weight)
	}
	if len(words) == 0 {
		return "no weights, as it has no CPU controller"
	}
	return strings.Join(words, ", ")
}
