package cluster

import (
	"context"
	"fmt"
	"time"
)

// StartAgain starts a node that Reclaim took, with the disk and the Node object that it had,
// and returns when its kubelet reports and the pod network is there.
func (c *Cluster) StartAgain(ctx context.Context, node string) error {
	started := time.Now()
	if err := c.startWorker(ctx, node); err != nil {
		return fmt.Errorf("start the instance of %s: %w", node, err)
	}
	if err := c.waitHeartbeat(ctx, node, started); err != nil {
		return err
	}
	return c.addToNetwork(ctx, node)
}

// Rejoin starts the kubelet of a node whose object was deleted again, so that it registers
// the node with that providerID, which may be empty, and wires the node: it gets another pod
// range.
func (c *Cluster) Rejoin(ctx context.Context, node, id string) error {
	if err := c.StopKubelet(ctx, node); err != nil {
		return err
	}
	if err := c.startKubeletAs(ctx, node, providerID(id)); err != nil {
		return err
	}
	return c.addToNetwork(ctx, node)
}

// StopKubelet stops a node's kubelet. Its containers go on.
func (c *Cluster) StopKubelet(ctx context.Context, node string) error {
	if _, err := c.engine.Exec(ctx, node, nil, "systemctl", "stop", "kubelet"); err != nil {
		return fmt.Errorf("stop the kubelet of %s: %w", node, err)
	}
	return nil
}

// StartKubelet starts a node's kubelet again. It does nothing on a node that is not running.
func (c *Cluster) StartKubelet(ctx context.Context, node string) error {
	running, err := c.engine.Running(ctx, node)
	if err != nil || !running {
		return err
	}
	started := time.Now()
	if _, err := c.engine.Exec(ctx, node, nil, "systemctl", "start", "kubelet"); err != nil {
		return fmt.Errorf("start the kubelet of %s: %w", node, err)
	}
	return c.waitHeartbeat(ctx, node, started)
}
