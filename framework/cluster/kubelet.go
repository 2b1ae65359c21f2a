package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/framework/wrap"
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
	_, err := c.engine.Exec(ctx, node, nil, "systemctl", "stop", "kubelet")
	return wrap.Errorf(err, "stop the kubelet of %s", node)
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

// setShutdownGrace changes the kubelet's configuration and starts it again, with the login manager
// that delays a shutdown for it (systemd-logind).
const setShutdownGrace = `set -e
sed -i -E "s/^shutdownGracePeriod: .*/shutdownGracePeriod: $1/; s/^shutdownGracePeriodCriticalPods: .*/shutdownGracePeriodCriticalPods: $2/" /var/lib/kubelet/config.yaml
rm -f /etc/systemd/logind.conf.d/99-kubelet.conf
systemctl start systemd-logind
systemctl restart kubelet`

// inhibitors lists who delays a shutdown of the node, and inhibitDelay for how long the login manager lets
// them, in microseconds.
const (
	manager      = "org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager"
	inhibitors   = "busctl call " + manager + " ListInhibitors"
	inhibitDelay = "busctl get-property " + manager + " InhibitDelayMaxUSec"
)

// SetShutdownGracePeriod sets for how long the kubelet of a node delays its shutdown to end the pods
// gracefully (shutdownGracePeriod; 0 turns that off), and the part of it for pods of system priority classes
// (shutdownGracePeriodCriticalPods). It waits until the kubelet runs with it and the login manager grants the delay:
// the kubelet raises InhibitDelayMaxSec itself, in 99-kubelet.conf.
func (c *Cluster) SetShutdownGracePeriod(ctx context.Context, node string, grace, critical time.Duration) error {
	started := time.Now()
	if _, err := c.engine.Exec(ctx, node, nil, "sh", "-c", setShutdownGrace, "sh", grace.String(), critical.String()); err != nil {
		return fmt.Errorf("set the shutdown grace period of %s: %w", node, err)
	}
	if err := c.waitHeartbeat(ctx, node, started); err != nil || grace == 0 {
		return err
	}
	return wait.Until(ctx, readyTimeout, "the kubelet of "+node+" to delay shutdowns", func(ctx context.Context) string {
		out, err := c.engine.Exec(ctx, node, nil, "sh", "-c", inhibitors)
		switch {
		case err != nil:
			return err.Error()
		case !strings.Contains(out, "kubelet"):
			return "the login manager lists no inhibitor of the kubelet: " + out
		}
		if out, err = c.engine.Exec(ctx, node, nil, "sh", "-c", inhibitDelay); err != nil {
			return err.Error()
		}
		return whyTooShort(out, grace)
	})
}

// whyTooShort returns why what busctl prints of inhibitDelay is not at least the grace period, or "".
func whyTooShort(printed string, grace time.Duration) string {
	var us int64
	if _, err := fmt.Sscanf(printed, "t %d", &us); err != nil {
		return fmt.Sprintf("the login manager's InhibitDelayMaxSec cannot be read from %q", printed)
	}
	if delay := time.Duration(us) * time.Microsecond; delay < grace {
		return fmt.Sprintf("the login manager's InhibitDelayMaxSec is %s, less than the %s that the kubelet requests", delay, grace)
	}
	return ""
}

// afterGracePeriod bounds what a shutdown takes after the kubelet's grace period: services have 90 s to stop.
const afterGracePeriod = 2 * time.Minute

// Shutdown shuts a node down as EC2 does when an instance is terminated: its operating system is
// asked to power off. It returns when the node's container has ended. Grace is what SetShutdownGracePeriod has set.
func (c *Cluster) Shutdown(ctx context.Context, node string, grace time.Duration) error {
	const powerOff = "systemctl start systemd-logind && busctl call " + manager + " PowerOff b false"
	if _, err := c.engine.Exec(ctx, node, nil, "sh", "-c", powerOff); err != nil {
		return fmt.Errorf("shut %s down: %w", node, err)
	}
	return wait.Until(ctx, grace+afterGracePeriod, node+" to shut down", func(ctx context.Context) string {
		running, err := c.engine.Running(ctx, node)
		switch {
		case err != nil:
			return err.Error()
		case running:
			return "it is running"
		}
		return ""
	})
}

// staticFile is the manifest of our only static pod on a node.
const staticFile = "/etc/kubernetes/manifests/spotdrill.yaml"

// PutStatic makes the node's kubelet run a static pod until RemoveStatic. The manifest is
// moved into place, so that the kubelet never reads a part of it.
func (c *Cluster) PutStatic(ctx context.Context, node, manifest string) error {
	const write = `mkdir -p /etc/kubernetes/manifests; cat >/etc/kubernetes/spotdrill.yaml; mv /etc/kubernetes/spotdrill.yaml "$1"`
	c.staticFree = false
	_, err := c.engine.Exec(ctx, node, strings.NewReader(manifest), "sh", "-ec", write, "sh", staticFile)
	return wrap.Errorf(err, "put a static pod on node %s", node)
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
		errs = append(errs, wrap.Errorf(err, "remove the static pod from node %s", n.Name))
		free = free && running
	}
	failed := errors.Join(errs...)
	c.staticFree = free && failed == nil
	return failed
}
