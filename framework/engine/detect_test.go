package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Docker and Podman are scripts here; PATH has nothing else but the runtime that
// Podman needs on cgroup v1.
func TestDetect(t *testing.T) {
	const answers, fails, silent = "echo 5.0.0", "echo the daemon is away >&2; exit 125", "exit 0"
	const denied = "echo permission denied while trying to connect to the docker API at unix:///var/run/docker.sock >&2; exit 1"
	for _, c := range []struct {
		name, provider, docker, podman string
		want, said, err                string
	}{
		{name: "Docker answers", docker: answers, podman: answers, want: "docker"},
		{name: "Docker's daemon is away", docker: fails, podman: answers, want: "podman", said: "Docker cannot be used (the daemon of Docker does not answer: docker info --format {{.ServerVersion}}: exit status 125: the daemon is away)"},
		{name: "Docker names no server", docker: silent, podman: answers, want: "podman", said: "its daemon does not run"},
		{name: "Docker is not there", podman: answers, want: "podman", said: "docker is not in PATH"},
		{name: "Podman is asked for", provider: "podman", docker: answers, podman: answers, want: "podman"},
		{name: "Docker is required and not there", provider: "docker", docker: fails, podman: answers, err: "KIND_EXPERIMENTAL_PROVIDER is docker: the daemon of Docker does not answer: docker info"},
		{name: "another one is asked for", provider: "nerdctl", docker: answers, err: "only docker and podman can be used"},
		{name: "Podman fails", podman: fails, err: "the daemon is away"},
		{name: "there is none", err: "no container engine: docker is not in PATH; Podman is not installed"},
		{name: "the daemon of the only one is away", docker: fails, err: "the daemon is away; Podman is not installed; run: sudo systemctl start docker"},
		{name: "this user may not use it", docker: denied, err: "log in again"},
		{name: "this user may not use it, and Podman answers", docker: denied, podman: answers, want: "podman", said: "permission denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			for name, script := range map[string]string{"docker": c.docker, "podman": c.podman, "runc": answers} {
				if script == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", folder)
			t.Setenv("SPOTDRILL_CACHE", folder)
			t.Setenv("KIND_EXPERIMENTAL_PROVIDER", c.provider)
			t.Setenv("DOCKER_HOST", "")
			var said strings.Builder
			e, err := Detect(t.Context(), Options{Log: func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) }})
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if err == nil && e.Name != c.want || !strings.Contains(said.String(), c.said) {
				t.Errorf("engine %v, reported %q; want %s and %q", e, said.String(), c.want, c.said)
			}
		})
	}
}
