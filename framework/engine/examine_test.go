package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeEngine is a command of that name alone in PATH.
func fakeEngine(t *testing.T, name, script string) *Engine {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder)
	return &Engine{Name: name}
}

// A Docker that is there is made usable; nothing else is installed.
func TestFixOfADockerThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct{ host, printed, fix string }{
		"not in the group docker":            {"", "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock", "usermod -aG docker"},
		"not in the group docker, Docker 29": {"", "permission denied while trying to connect to the docker API at unix:///var/run/docker.sock", "usermod -aG docker"},
		"no daemon":                          {"", "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?", "systemctl start docker"},
		"no daemon on another host":          {"tcp://away:2375", "Cannot connect to the Docker daemon at tcp://away:2375.", "unset DOCKER_HOST"},
	} {
		t.Setenv("DOCKER_HOST", c.host)
		err := fakeEngine(t, docker, "echo '"+c.printed+"' >&2; exit 1").answers(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.printed) {
			t.Errorf("%s: %v", name, err)
		}
		if fix := engineFix(fmt.Errorf("%w: %w", errNoEngine, err), true); !strings.Contains(fix, c.fix) || strings.Contains(fix, "podman") {
			t.Errorf("%s: fix %q, want %q", name, fix, c.fix)
		}
	}
	if fix := engineFix(errNoEngine, true); !strings.Contains(fix, "install") {
		t.Errorf("no engine at all: fix %q", fix)
	}
}

// The server runs the containers; a client may be older or newer.
func TestVersionIsTheServers(t *testing.T) {
	e := fakeEngine(t, docker, `case "$*" in *Client*) echo 20.10.24 ;; *ServerVersion*) echo 29.0.1 ;; esac`)
	if got, err := e.Version(t.Context()); got != "29.0.1" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// A limit that is too low is raised; without the permission, the error has the one command to run.
func TestLimits(t *testing.T) {
	writable := filepath.Join(t.TempDir(), "limit")
	for name, c := range map[string]struct {
		path, has   string
		state       State
		err, logged string
	}{
		"high enough":    {writable, "512", OK, "", ""},
		"too low":        {writable, "128", Automatic, "", "raised some.limit from 128 to 1024 until the next boot"},
		"not permitted":  {"/proc/sys/kernel/pid_max_of_nobody", "", Warning, "read some.limit", ""},
		"may not be set": {"/proc/sys/kernel/cap_last_cap", "", Automatic, "sysctl -w some.limit=1024", ""},
	} {
		if c.has != "" {
			if err := os.WriteFile(c.path, []byte(c.has), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if os.Geteuid() != 0 && c.state == Automatic {
			c.state = Missing
		}
		l := hostLimit{name: "some.limit", path: c.path, needed: 512, raiseTo: 1024}
		if f := l.examine("some limit"); f.State != c.state || f.State == Missing && f.Fix != l.command() {
			t.Errorf("%s: %+v", name, f)
		}
		logged := ""
		err := l.raise(Options{Log: func(format string, args ...any) { logged = fmt.Sprintf(format, args...) }})
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || logged != c.logged {
			t.Errorf("%s: %v, logged %q", name, err, logged)
		}
	}
}

// Nothing raises system.slice: doctor must not report that it will be.
func TestContainersInSystemSlice(t *testing.T) {
	for name, c := range map[string]struct {
		engine, driver, configuration string
		want                          bool
	}{
		"Docker with systemd":                  {docker, "systemd", "", true},
		"Docker with a slice of its own":       {docker, "systemd", `{"cgroup-parent": "docker.slice"}`, false},
		"Docker that is configured otherwise":  {docker, "systemd", `{"bip": "10.0.0.1/24"}`, true},
		"Docker without systemd":               {docker, "cgroupfs", "", false},
		"Podman, whose slice is machine.slice": {podman, "systemd", "", false},
	} {
		if got := fakeEngine(t, c.engine, "echo "+c.driver).inSystemSlice(t.Context(), c.configuration); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestMemoryOf(t *testing.T) {
	for meminfo, want := range map[string]uint64{
		"MemTotal:       24683896 kB\nMemFree:         1000000 kB\n": 24683896 << 10,
		"MemFree: 1 kB\n": 0,
		"":                0,
	} {
		if got := memoryOf(meminfo, "MemTotal"); got != want {
			t.Errorf("%q: %d, want %d", meminfo, got, want)
		}
	}
}

// A prerequisite that is missing describes how to provide it.
func TestWhatIsMissingHasAFix(t *testing.T) {
	t.Setenv("SPOTDRILL_CACHE", t.TempDir()) // Podman may need a configuration of ours
	_, found := Examine(t.Context())
	if len(found) < 3 {
		t.Errorf("found only %+v", found)
	}
	for _, f := range found {
		if f.What == "" || f.Detail == "" || f.State == Missing && f.Fix == "" && f.What != "container engine" {
			t.Errorf("%+v", f)
		}
	}
}
