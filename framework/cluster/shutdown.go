package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/wait"
)

// criticalPods is how much of a shutdown's grace period is for pods of system priority classes, such
// as CoreDNS, in seconds.
const criticalPods = 10

// setShutdownGrace changes the kubelet's configuration and starts it again, with the login manager
// that delays a shutdown for it (systemd-logind).
const setShutdownGrace = `set -e
sed -i -E "s/^shutdownGracePeriod: .*/shutdownGracePeriod: $1/; s/^shutdownGracePeriodCriticalPods: .*/shutdownGracePeriodCriticalPods: $2/" /var/lib/kubelet/config.yaml
rm -f /etc/systemd/logind.conf.d/99-kubelet.conf
systemctl start systemd-logind
systemctl restart kubelet`

// inhibitors lists who delays a shutdown of the node.
const inhibitors = "busctl call org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager ListInhibitors"

// SetShutdownGracePeriod sets for how long the kubelet of a node delays its shutdown to end the pods
// gracefully (shutdownGracePeriod; 0 turns that off), and waits until the kubelet runs with it.
func (c *Cluster) SetShutdownGracePeriod(ctx context.Context, node string, grace time.Duration) error {
	critical := "0s"
	if grace > 0 {
		critical = fmt.Sprintf("%ds", criticalPods)
	}
	started := time.Now()
	if _, err := c.engine.Exec(ctx, node, nil, "sh", "-c", setShutdownGrace, "sh", grace.String(), critical); err != nil {
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
		return ""
	})
}

// shutdownTimeout is what EC2 gives an operating system to shut down: some minutes.
const shutdownTimeout = 3 * time.Minute

// Shutdown shuts a node down as EC2 does when an instance is terminated: its operating system is
// asked to power off. It returns when the node's container has ended.
func (c *Cluster) Shutdown(ctx context.Context, node string) error {
	const powerOff = "systemctl start systemd-logind && busctl call org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager PowerOff b false"
	if _, err := c.engine.Exec(ctx, node, nil, "sh", "-c", powerOff); err != nil {
		return fmt.Errorf("shut %s down: %w", node, err)
	}
	return wait.Until(ctx, shutdownTimeout, node+" to shut down", func(ctx context.Context) string {
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
