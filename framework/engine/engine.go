// Package engine drives the container engine that the drill's cluster runs on:
// a running Docker, or Podman.
package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	docker = "docker"
	podman = "podman"
)

// Docker and Podman answer in well under a second; a daemon that hangs does not.
const infoTimeout = 5 * time.Second

// Engine is a container engine's command line.
type Engine struct {
	// Name is the command: "docker" or "podman".
	Name string

	// containersConf is the configuration that Podman needs on this host, or "".
	containersConf string
}

// Options control what Detect may do and where it logs.
type Options struct {
	// Log receives every line meant for the user; nil discards them.
	Log func(format string, args ...any)
	// Install allows installing Podman from Debian's packages when no engine is found.
	Install bool
}

func (o Options) log(format string, args ...any) {
	if o.Log != nil {
		o.Log(format, args...)
	}
}

// Detect finds the engine to use: Docker if its daemon answers, else Podman. It installs
// a missing Podman if opts allow it. KIND_EXPERIMENTAL_PROVIDER, if set, decides between
// the two. The error describes what was tried and what to do.
func Detect(ctx context.Context, opts Options) (*Engine, error) {
	wanted := os.Getenv("KIND_EXPERIMENTAL_PROVIDER")
	if wanted != "" && wanted != docker && wanted != podman {
		return nil, fmt.Errorf("KIND_EXPERIMENTAL_PROVIDER is %q: only docker and podman can be used", wanted)
	}
	var noDocker error
	if wanted != podman {
		e := &Engine{Name: docker}
		err := e.answers(ctx)
		if err == nil {
			return e, nil
		}
		if wanted == docker {
			return nil, fmt.Errorf("KIND_EXPERIMENTAL_PROVIDER is docker: %w", err)
		}
		opts.log("Docker cannot be used (%v); trying Podman", err)
		noDocker = err
	}
	if _, err := exec.LookPath(podman); err != nil {
		if err := installPodman(ctx, opts, noDocker); err != nil {
			return nil, err
		}
	}
	e := &Engine{Name: podman}
	if err := e.configure(); err != nil {
		return nil, err
	}
	if err := e.answers(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// ErrDenied reports that a daemon runs which this user may not use.
var ErrDenied = errors.New("this user may not use the daemon of Docker")

// errNoDaemon reports that there is a client of Docker, and no daemon that answers it.
var errNoDaemon = errors.New("the daemon of Docker does not answer")

// answers checks that the engine answers with its version. What Docker's client prints is part of the error,
// which is ErrDenied or errNoDaemon if that is why.
func (e *Engine) answers(ctx context.Context) error {
	if _, err := exec.LookPath(e.Name); err != nil {
		return fmt.Errorf("%s is not in PATH", e.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	version, err := e.Version(ctx)
	if err == nil && version == "" {
		err = fmt.Errorf("%s info names no server: its daemon does not run", e.Name)
	}
	switch {
	case err == nil || e.Name != docker:
		return err
	case strings.Contains(err.Error(), "permission denied"):
		return fmt.Errorf("%w: %w", ErrDenied, err)
	}
	return fmt.Errorf("%w: %w", errNoDaemon, err)
}

// Version returns the version of the engine's server, which runs the containers: Docker's client may be another
// version. It is "" if no server answers: without one, some clients of Docker print nothing and exit with 0.
func (e *Engine) Version(ctx context.Context) (string, error) {
	format := "{{.ServerVersion}}"
	if e.Name == podman {
		format = "{{.Version.Version}}"
	}
	return e.Run(ctx, "info", "--format", format)
}

// Daemonless reports whether the command line itself does what it is asked to, as Podman's does: it then reaches what
// the engine reaches. Docker's asks a daemon, which may have registry mirrors and proxies of its own.
func (e *Engine) Daemonless() bool { return e.Name == podman }

// Environ returns the variables, as KEY=value, with which other programs use this engine
// the same way, and with which kind puts its nodes on network unless that is "".
func (e *Engine) Environ(network string) []string {
	variables := []string{"KIND_EXPERIMENTAL_PROVIDER=" + e.Name}
	if network != "" {
		variables = append(variables, "KIND_EXPERIMENTAL_"+strings.ToUpper(e.Name)+"_NETWORK="+network)
	}
	if e.containersConf != "" {
		variables = append(variables, "CONTAINERS_CONF="+e.containersConf)
	}
	return variables
}

// Apply sets the variables of Environ for this process: kind's library runs the engine
// itself and reads its network only from there.
func (e *Engine) Apply(network string) error {
	for _, variable := range e.Environ(network) {
		name, value, _ := strings.Cut(variable, "=")
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// StateDir returns the folder for files that later runs reuse: $SPOTDRILL_CACHE, or
// spotdrill in the user's cache folder. It can be deleted at any time.
func StateDir() (string, error) {
	if dir := os.Getenv("SPOTDRILL_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", errors.Join(errors.New("find a folder to keep state in: set SPOTDRILL_CACHE"), err)
	}
	return filepath.Join(dir, "spotdrill"), nil
}

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
