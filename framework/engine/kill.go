package engine

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

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
