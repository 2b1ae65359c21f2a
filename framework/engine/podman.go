package engine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// podmanHost has the facts that decide Podman's configuration.
type podmanHost struct {
	cgroupVersion int
	// mayRaiseLimits: the process has CAP_SYS_RESOURCE.
	mayRaiseLimits bool
	// maxFiles and maxProcesses are the hard limits that Podman itself runs with.
	maxFiles, maxProcesses uint64
}

// configure writes a configuration for Podman if it needs one here. It never changes the
// user's configuration: CONTAINERS_CONF points to the new one.
func (e *Engine) configure() error {
	host, err := inspectPodmanHost()
	if err != nil {
		return err
	}
	content := containersConf(host)
	if content == "" {
		return nil
	}
	if host.cgroupVersion == 1 {
		if _, err := exec.LookPath("runc"); err != nil {
			return fmt.Errorf("this host has cgroup v1, where Podman needs runc: %s", installCommand("runc"))
		}
	}
	dir, err := StateDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write Podman's configuration: %w", err)
	}
	path := filepath.Join(dir, "containers.conf")
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		return fmt.Errorf("write Podman's configuration: %w", err)
	}
	e.containersConf = path
	return nil
}

// containersConf returns the settings without which Podman starts no node on this
// host, or "" if it needs none.
func containersConf(host podmanHost) string {
	var conf strings.Builder
	if !host.mayRaiseLimits {
		// By default Podman requests more than root has; that needs CAP_SYS_RESOURCE.
		fmt.Fprintf(&conf, "[containers]\ndefault_ulimits = [\"nofile=%[1]d:%[1]d\", \"nproc=%[2]d:%[2]d\"]\n",
			min(host.maxFiles, 1<<20), min(host.maxProcesses, 1<<20))
	}
	if host.cgroupVersion == 1 {
		// crun, Podman's default, refuses cgroup v1 next to an empty v2 hierarchy.
		conf.WriteString("[engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\n")
	}
	if conf.Len() == 0 {
		return ""
	}
	return "# Written by spotdrill at every start.\n" + conf.String()
}

func inspectPodmanHost() (podmanHost, error) {
	var files, processes unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return podmanHost{}, fmt.Errorf("read the limit of open files: %w", err)
	}
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &processes); err != nil {
		return podmanHost{}, fmt.Errorf("read the limit of processes: %w", err)
	}
	status, err := os.ReadFile("/proc/self/status")
	if os.IsNotExist(err) {
		// Not Linux: Podman runs in its own virtual machine, which needs no configuration.
		return podmanHost{cgroupVersion: 2, mayRaiseLimits: true}, nil
	}
	if err != nil {
		return podmanHost{}, fmt.Errorf("read this process's capabilities: %w", err)
	}
	pidMax, err := readNumber("/proc/sys/kernel/pid_max")
	if err != nil {
		return podmanHost{}, fmt.Errorf("read the largest process number: %w", err)
	}
	return podmanHost{
		cgroupVersion:  CGroupVersion(),
		mayRaiseLimits: hasCapability(string(status), capSysResource),
		maxFiles:       files.Max,
		// Podman lowers its own limit of processes to pid_max.
		maxProcesses: min(processes.Max, uint64(pidMax)),
	}, nil
}
