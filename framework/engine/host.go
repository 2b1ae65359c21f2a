package engine

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// CAP_SYS_RESOURCE's number in linux/capability.h.
const capSysResource = 24

// hostLimit is a limit of this host's kernel that a cluster may need more of.
type hostLimit struct {
	name            string // for sysctl
	path            string
	needed, raiseTo int
}

// inotifyInstances is a limit of each user, here of root, as whom all nodes run. With Linux's default of 128, systemd
// fails in the third or fourth node: each node has some 30, of systemd, the kubelet, containerd and the pods.
func inotifyInstances() hostLimit {
	const name = "fs.inotify.max_user_instances"
	return hostLimit{name: name, path: "/proc/sys/" + strings.ReplaceAll(name, ".", "/"), needed: 512, raiseTo: 1024}
}

// command raises the limit until the next boot.
func (l hostLimit) command() string {
	return asRoot(fmt.Sprintf("sysctl -w %s=%d", l.name, l.raiseTo))
}

const modulesPath = "/lib/modules"

// CGroupVersion returns 1 if the host uses control groups of version 1, alone or next to
// an empty hierarchy of version 2; else 2.
func CGroupVersion() int {
	if exists("/sys/fs/cgroup") && !exists("/sys/fs/cgroup/cgroup.controllers") {
		return 1
	}
	return 2
}

// RaiseLimits raises the limits of a Linux host that are too low for a cluster's nodes, and logs what it changed. It needs
// no engine, so that it comes first: without the permission, the error has the one command that root has to run.
func RaiseLimits(opts Options) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	return inotifyInstances().raise(opts)
}

func (l hostLimit) raise(opts Options) error {
	now, err := readNumber(l.path)
	if err != nil {
		return fmt.Errorf("read %s: %w", l.name, err)
	}
	if now >= l.needed {
		return nil
	}
	if err := os.WriteFile(l.path, []byte(strconv.Itoa(l.raiseTo)), 0o644); err != nil {
		return fmt.Errorf("%s is %d, and the nodes need at least %d; run once, then try again: %s", l.name, now, l.needed, l.command())
	}
	opts.log("raised %s from %d to %d until the next boot", l.name, now, l.raiseTo)
	return nil
}

// PrepareHost makes the folder /lib/modules on a Linux host that has none: kind mounts it into its nodes. It logs that.
// Without the permission, the error names the command to run.
func (e *Engine) PrepareHost(opts Options) error {
	// Docker creates folders that it mounts, Podman does not; minimal hosts have none.
	if runtime.GOOS == "linux" && e.Name == podman && !exists(modulesPath) {
		if err := os.Mkdir(modulesPath, 0o755); err != nil {
			return fmt.Errorf("kind mounts %s into its nodes and this host has none; run: %s", modulesPath, asRoot("mkdir "+modulesPath))
		}
		opts.log("made an empty %s, which kind mounts into its nodes", modulesPath)
	}
	return nil
}

func readNumber(path string) (int, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(content)))
}

// hasCapability reports whether the content of a /proc/PID/status shows the
// capability as effective.
func hasCapability(status string, capability uint) bool {
	for line := range strings.Lines(status) {
		if hex, found := strings.CutPrefix(line, "CapEff:"); found {
			effective, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return err == nil && effective&(1<<capability) != 0
		}
	}
	return false
}
