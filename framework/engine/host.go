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

// With Linux's default of 128, systemd fails in the third or fourth node.
const (
	inotifyPath    = "/proc/sys/fs/inotify/max_user_instances"
	inotifyNeeded  = 512
	inotifyRaiseTo = 1024
)

const modulesPath = "/lib/modules"

// CGroupVersion returns 1 if the host uses control groups of version 1, alone or next to
// an empty hierarchy of version 2; else 2.
func CGroupVersion() int {
	if exists("/sys/fs/cgroup") && !exists("/sys/fs/cgroup/cgroup.controllers") {
		return 1
	}
	return 2
}

// PrepareHost prepares a Linux host for a cluster's nodes: enough inotify instances, and
// the folder /lib/modules, which kind mounts into its nodes. It logs what it changed.
// Without the permission, the error names the command to run.
func (e *Engine) PrepareHost(opts Options) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	if err := raiseInotify(opts); err != nil {
		return err
	}
	// Docker creates folders that it mounts, Podman does not; minimal hosts have none.
	if e.Name == podman && !exists(modulesPath) {
		if err := os.Mkdir(modulesPath, 0o755); err != nil {
			return fmt.Errorf("kind mounts %s into its nodes and this host has none; run as root: mkdir %s", modulesPath, modulesPath)
		}
		opts.log("made an empty %s, which kind mounts into its nodes", modulesPath)
	}
	return nil
}

func raiseInotify(opts Options) error {
	instances, err := readNumber(inotifyPath)
	if err != nil {
		return fmt.Errorf("read the limit of inotify instances: %w", err)
	}
	if instances >= inotifyNeeded {
		return nil
	}
	if err := os.WriteFile(inotifyPath, []byte(strconv.Itoa(inotifyRaiseTo)), 0o644); err != nil {
		return fmt.Errorf("fs.inotify.max_user_instances is %d, the nodes need at least %d; run as root: sysctl -w fs.inotify.max_user_instances=%d", instances, inotifyNeeded, inotifyRaiseTo)
	}
	opts.log("raised fs.inotify.max_user_instances from %d to %d until the next boot", instances, inotifyRaiseTo)
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
