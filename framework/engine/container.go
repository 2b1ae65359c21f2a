package engine

import (
	"context"
	"fmt"
	"strings"
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
