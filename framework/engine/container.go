package engine

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Container is one container as the engine lists it.
type Container struct {
	Name string
	// State is the engine's own word, such as "running" or "exited".
	State string
}

// Containers lists the containers, running or not, that carry label ("key" or
// "key=value").
func (e *Engine) Containers(ctx context.Context, label string) ([]Container, error) {
	ids, err := e.Run(ctx, "ps", "--all", "--quiet", "--filter", "label="+label)
	if err != nil || ids == "" {
		return nil, err
	}
	// In some versions of Podman, ps prints the state as a sentence.
	args := []string{"inspect", "--type", "container", "--format", "{{.Name}} {{.State.Status}}"}
	out, err := e.Run(ctx, append(args, strings.Fields(ids)...)...)
	if err != nil {
		return nil, err
	}
	var containers []Container
	for line := range strings.Lines(out) {
		name, state, _ := strings.Cut(strings.TrimSpace(line), " ")
		containers = append(containers, Container{Name: strings.TrimPrefix(name, "/"), State: state})
	}
	return containers, nil
}

// Running reports whether the container runs. One that does not exist is an error.
func (e *Engine) Running(ctx context.Context, container string) (bool, error) {
	running, err := e.Run(ctx, "inspect", "--type", "container", "--format", "{{.State.Running}}", container)
	return running == "true", err
}

// ContainerIP returns the container's IPv4 address on network. A container may
// come back with another one after a restart.
func (e *Engine) ContainerIP(ctx context.Context, container, network string) (string, error) {
	ips, err := e.ContainerIPs(ctx, network, container)
	if err != nil {
		return "", err
	}
	if ips[container] == "" {
		return "", fmt.Errorf("container %s has no address on network %s: is it running?", container, network)
	}
	return ips[container], nil
}

// ContainerIPs returns the IPv4 addresses of those of the containers that run, by their
// names. It is one command for all: each takes a tenth of a second of processor time.
func (e *Engine) ContainerIPs(ctx context.Context, network string, containers ...string) (map[string]string, error) {
	format := fmt.Sprintf("{{.Name}} {{.State.Running}} {{with index .NetworkSettings.Networks %q}}{{.IPAddress}}{{end}}", network)
	out, err := e.Run(ctx, append([]string{"inspect", "--type", "container", "--format", format}, containers...)...)
	if err != nil {
		return nil, err
	}
	return runningIPs(out), nil
}

// runningIPs reads lines of a name, whether the container runs, and its address, if any.
func runningIPs(lines string) map[string]string {
	ips := map[string]string{}
	for line := range strings.Lines(lines) {
		if f := strings.Fields(line); len(f) == 3 && f[1] == "true" {
			ips[strings.TrimPrefix(f[0], "/")] = f[2] // Docker's names begin with a slash
		}
	}
	return ips
}

// HasIPVS reports whether the kernel of the containers has IPVS. It loads the module as
// kube-proxy would. The image must have sh and modprobe.
func (e *Engine) HasIPVS(ctx context.Context, image string) (bool, error) {
	const check = "modprobe ip_vs 2>/dev/null; if test -e /proc/net/ip_vs; then echo yes; else echo no; fi"
	out, err := e.Run(ctx, "run", "--rm", "--privileged", "--network=none", "--volume=/lib/modules:/lib/modules:ro", "--entrypoint=sh", image, "-c", check)
	if err != nil {
		return false, fmt.Errorf("check the kernel for IPVS: %w", err)
	}
	return out == "yes", nil
}

// Start starts a container that has stopped.
func (e *Engine) Start(ctx context.Context, container string) error {
	_, err := e.Run(ctx, "start", container)
	return err
}

// Remove kills and removes a container with its anonymous volumes. One that does
// not exist is no error.
func (e *Engine) Remove(ctx context.Context, container string) error {
	args := []string{"rm", "--force", "--volumes"}
	if e.Name == podman {
		// Otherwise Podman waits ten seconds for the container to stop by itself.
		args = append(args, "--ignore", "--time", "0")
	}
	_, err := e.Run(ctx, append(args, container)...)
	if err != nil && strings.Contains(err.Error(), "No such container") {
		return nil
	}
	return err
}

// Images lists the references of the engine's images that begin with a prefix.
func (e *Engine) Images(ctx context.Context, prefix string) ([]string, error) {
	out, err := e.Run(ctx, "images", "--format", "{{.Repository}}:{{.Tag}}")
	if err != nil {
		return nil, err
	}
	var refs []string
	for line := range strings.Lines(out) {
		if ref := strings.TrimSpace(line); strings.HasPrefix(ref, prefix) {
			refs = append(refs, ref)
		}
	}
	return refs, nil
}

// RemoveImage removes an image from the engine.
func (e *Engine) RemoveImage(ctx context.Context, ref string) error {
	_, err := e.Run(ctx, "rmi", ref)
	return err
}

// HasImage reports whether the engine has the image ref.
func (e *Engine) HasImage(ctx context.Context, ref string) (bool, error) {
	_, err := e.Run(ctx, "image", "inspect", "--format", "{{.Id}}", ref)
	if ctx.Err() != nil {
		return false, err
	}
	return err == nil, nil
}

// Kill ends a running container at once with SIGKILL, like a reclaimed machine.
//
// On cgroup v1 a frozen process does not die. A runc inside the container briefly freezes
// the container that it updates. If that runc dies first, nothing thaws it and the outer
// container never ends. So Kill thaws everything frozen inside.
func (e *Engine) Kill(ctx context.Context, container string) error {
	freezer := ""
	if CGroupVersion() == 1 {
		pid, err := e.Run(ctx, "inspect", "--format", "{{.State.Pid}}", container)
		if err != nil {
			return err
		}
		freezer = freezerOf(pid)
	}
	killed := make(chan error, 1)
	go func() {
		_, err := e.Run(ctx, "kill", "--signal", "KILL", container)
		killed <- err
	}()
	tick := time.NewTicker(thawEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-killed:
			return err
		case <-tick.C:
			if freezer != "" {
				thaw(freezer)
			}
		}
	}
}

// thawEvery is the interval between searches for frozen processes while a container is
// being killed.
const thawEvery = 100 * time.Millisecond

// freezerOf is the folder of a process's freezer on cgroup v1; empty if it has none.
func freezerOf(pid string) string {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "cgroup"))
	if err != nil {
		return ""
	}
	return freezerIn(string(text))
}

// freezerIn reads a /proc/PID/cgroup. The root freezer is not that of a container.
func freezerIn(cgroups string) string {
	for line := range strings.Lines(cgroups) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		if path, ok := strings.CutPrefix(rest, "freezer:"); ok && path != "/" {
			return filepath.Join("/sys/fs/cgroup/freezer", path)
		}
	}
	return ""
}

// thaw thaws every freezer below this one. The freezer itself stays as it is: a paused
// container stays paused. An error means that the freezer is gone, or the kill fails.
func thaw(freezer string) {
	_ = filepath.WalkDir(freezer, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != freezerState || filepath.Dir(path) == freezer {
			return nil //nolint:nilerr // a pod's cgroup may disappear at any time
		}
		if state, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(state)) != "THAWED" {
			_ = os.WriteFile(path, []byte("THAWED"), 0o644)
		}
		return nil
	})
}

// freezerState is the file with the state of a freezer: FROZEN, FREEZING or THAWED.
const freezerState = "freezer.state"

// Logs returns the last lines that a container printed, to either stream: a program without a terminal logs to standard
// error, which the engine's command prints there, too.
func (e *Engine) Logs(ctx context.Context, container string, lines int) (string, error) {
	cmd := e.Command(ctx, "logs", "--tail", strconv.Itoa(lines), container)
	printed, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, lastLines(string(printed), 3))
	}
	return strings.TrimSpace(string(printed)), nil
}
