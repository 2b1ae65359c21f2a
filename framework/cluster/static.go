package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spotdrill/spotdrill/framework/nodes"
)

// staticFile is the manifest of our only static pod on a node.
const staticFile = "/etc/kubernetes/manifests/spotdrill.yaml"

// PutStatic makes the node's kubelet run a static pod until RemoveStatic. The manifest is
// moved into place, so that the kubelet never reads a part of it.
func (c *Cluster) PutStatic(ctx context.Context, node, manifest string) error {
	const write = `mkdir -p /etc/kubernetes/manifests; cat >/etc/kubernetes/spotdrill.yaml; mv /etc/kubernetes/spotdrill.yaml "$1"`
	c.staticFree = false
	if _, err := c.engine.Exec(ctx, node, strings.NewReader(manifest), "sh", "-ec", write, "sh", staticFile); err != nil {
		return fmt.Errorf("put a static pod on node %s: %w", node, err)
	}
	return nil
}

// RemoveStatic removes our static pods from the running nodes, including those that an
// earlier run left. A node that is not running is left for the next call.
func (c *Cluster) RemoveStatic(ctx context.Context) error {
	if c.staticFree {
		return nil
	}
	var errs []error
	free := true
	for _, n := range c.nodesOf(nodes.Spot) {
		running, err := c.engine.Running(ctx, n.Name)
		if err == nil && running {
			_, err = c.engine.Exec(ctx, n.Name, nil, "rm", "-f", staticFile)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("remove the static pod from node %s: %w", n.Name, err))
		}
		free = free && running
	}
	c.staticFree = free && len(errs) == 0
	return errors.Join(errs...)
}
