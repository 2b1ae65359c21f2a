package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	kindcluster "sigs.k8s.io/kind/pkg/cluster"
	kindexec "sigs.k8s.io/kind/pkg/exec"

	"github.com/spotdrill/spotdrill/kind"
)

// Create creates the nodes and the control plane. They have no pod network until SetUpNetwork,
// and no instances until SetInstances. If it fails, nothing of them is left, and the error has what kind, the engine or a
// node printed.
func (c *Cluster) Create(ctx context.Context, opts Options) error {
	config, err := opts.render(opts.Spares)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(opts.KubeconfigDir, 0o755); err != nil {
		return fmt.Errorf("create kubeconfig folder: %w", err)
	}
	for name, content := range kind.Mounted() {
		if err := os.WriteFile(filepath.Join(opts.KubeconfigDir, name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("write a file that nodes mount: %w", err)
		}
	}
	done := make(chan error, 1)
	go func() {
		done <- c.provider.Create(opts.Name,
			kindcluster.CreateWithRawConfig(config),
			kindcluster.CreateWithNodeImage(opts.Nodes.Image),
			kindcluster.CreateWithKubeconfigPath(filepath.Join(opts.KubeconfigDir, opts.Name+".kubeconfig")),
			kindcluster.CreateWithRetain(true), // for explain; they are deleted below,
			kindcluster.CreateWithDisplayUsage(false),
			kindcluster.CreateWithDisplaySalutation(false))
	}()
	// kind's Create takes no context.
	select {
	case err = <-done:
	case <-ctx.Done():
		err = errors.Join(ctx.Err(), <-done)
	}
	if err == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	err = fmt.Errorf("create kind cluster %s: %w", opts.Name, c.explain(ctx, err))
	return errors.Join(err, c.Delete(ctx))
}

// printedLines is how much is shown of what a command or a node printed before it failed: kubeadm's reason takes that.
const printedLines = 15

// explain adds to an error of kind what is known besides: what the command printed that failed, else what a node printed
// last, since kind waits for a node until its systemd is up.
func (c *Cluster) explain(ctx context.Context, err error) error {
	if failed := kindexec.RunErrorForError(err); failed != nil {
		return fmt.Errorf("%w; it printed:\n%s", err, lastLines(string(failed.Output)))
	}
	containers, unlisted := c.provider.ListNodes(c.Name)
	if unlisted != nil || len(containers) == 0 || ctx.Err() != nil {
		return err
	}
	for _, n := range containers {
		if running, inspected := c.engine.Running(ctx, n.String()); inspected != nil || running {
			continue
		}
		if printed, unread := c.engine.Logs(ctx, n.String(), printedLines); unread == nil {
			err = fmt.Errorf("%w; %s does not run, and printed last:\n%s", err, n, printed)
		}
	}
	return err
}

// frame is one function of a stack trace: kubeadm prints dozens after its reason.
var frame = regexp.MustCompile(`(?m)^\S+\n\t\S+\.(?:go|s):\d+(?:\n|$)`)

// lastLines returns the last lines of what was printed, without stack traces.
func lastLines(printed string) string {
	lines := strings.Split(strings.TrimSpace(frame.ReplaceAllString(printed, "")), "\n")
	return strings.Join(lines[max(0, len(lines)-printedLines):], "\n")
}
