package engine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// cancelGrace is how long a cancelled command may take to end by itself.
const cancelGrace = 10 * time.Second

// Command returns a command of the engine; the caller may set its streams. It runs in
// its own process group, so that Ctrl-C in the terminal, which reaches the whole
// foreground group, does not interrupt it halfway; only ctx ends it.
func (e *Engine) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := OwnGroup(exec.CommandContext(ctx, e.Name, args...))
	if e.containersConf != "" {
		cmd.Env = append(os.Environ(), "CONTAINERS_CONF="+e.containersConf)
	}
	return cmd
}

// OwnGroup gives cmd, made with exec.CommandContext, its own process group, which is
// terminated when the context ends. It returns cmd.
func OwnGroup(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = cancelGrace
	return cmd
}

// Run runs the engine with args and returns its trimmed standard output. The error
// includes the command line and the end of its standard error.
func (e *Engine) Run(ctx context.Context, args ...string) (string, error) {
	return output(ctx, e.Command(ctx, args...))
}

// Exec runs argv in a running container with stdin (nil: none) and returns its trimmed
// standard output.
func (e *Engine) Exec(ctx context.Context, container string, stdin io.Reader, argv ...string) (string, error) {
	args := []string{"exec"}
	if stdin != nil {
		args = append(args, "--interactive")
	}
	cmd := e.Command(ctx, append(append(args, container), argv...)...)
	cmd.Stdin = stdin
	return output(ctx, cmd)
}

// output runs cmd, whose streams except for stdin are not set yet.
func output(ctx context.Context, cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err == nil {
		return strings.TrimSpace(stdout.String()), nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if printed := lastLines(stderr.String(), 3); printed != "" {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, printed)
	}
	return "", fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
}

// lastLines returns the last n lines of text that are not empty, joined by "; ".
func lastLines(text string, n int) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}
