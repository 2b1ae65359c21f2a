package engine

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Kill ends a running container at once with SIGKILL, as a reclaimed machine ends.
//
// On cgroup v1 a frozen process does not die. A runc within the container freezes
// what it updates for a moment, and when that runc dies first nothing thaws it again:
// the container would never end. So whatever is frozen within it is thawed meanwhile.
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

// thawEvery is the time between two looks for what is frozen, while a container is
// being killed.
const thawEvery = 100 * time.Millisecond

// freezerOf is the folder of the freezer that a process is in, on cgroup v1; empty
// where it is in none.
func freezerOf(pid string) string {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "cgroup"))
	if err != nil {
		return ""
	}
	return freezerIn(string(text))
}

// freezerIn reads a /proc/PID/cgroup. The root is no container's.
func freezerIn(cgroups string) string {
	for line := range strings.Lines(cgroups) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		if path, ok := strings.CutPrefix(rest, "freezer:"); ok && path != "/" {
			return filepath.Join("/sys/fs/cgroup/freezer", path)
		}
	}
	return ""
}

// thaw thaws what is frozen below a freezer. The freezer itself is left: a container
// that its owner paused stays so. What cannot be thawed is gone, or shows in the kill.
func thaw(freezer string) {
	_ = filepath.WalkDir(freezer, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != freezerState || filepath.Dir(path) == freezer {
			return nil //nolint:nilerr // a pod's cgroup may go meanwhile
		}
		if state, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(state)) != "THAWED" {
			_ = os.WriteFile(path, []byte("THAWED"), 0o644)
		}
		return nil
	})
}

// freezerState is the file that says whether a freezer is FROZEN, FREEZING or THAWED.
const freezerState = "freezer.state"
