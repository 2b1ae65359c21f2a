package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// podmanPackages are Debian's and Ubuntu's packages of Podman, of the runtime that
// also runs on cgroup v1, and of its networks with name resolution.
func podmanPackages() []string {
	return []string{"podman", "runc", "netavark", "aardvark-dns", "iptables", "iproute2"}
}

func installCommand(packages ...string) string {
	return "apt-get install -y --no-install-recommends " + strings.Join(packages, " ")
}

// errNoEngine reports that there is no usable container engine.
var errNoEngine = errors.New("no container engine")

// installPodman installs Podman as root on Debian or Ubuntu. Anywhere else the error describes what to do; noDocker
// is why Docker cannot be used.
func installPodman(ctx context.Context, opts Options, noDocker error) error {
	missing := fmt.Errorf("%w: Podman is not installed", errNoEngine)
	if noDocker != nil {
		missing = fmt.Errorf("%w: %w; Podman is not installed", errNoEngine, noDocker)
	}
	debian := debianLike(contentOf("/etc/os-release"))
	if os.Geteuid() != 0 || !opts.Install || !debian {
		return fmt.Errorf("%w; run: %s", missing, engineFix(missing, debian))
	}
	opts.log("installing Podman, because there is no container engine: %s", installCommand(podmanPackages()...))
	if err := aptGet(ctx, "update"); err != nil {
		return fmt.Errorf("%w; installing it failed: %w", missing, err)
	}
	install := append([]string{"install", "-y", "--no-install-recommends"}, podmanPackages()...)
	if err := aptGet(ctx, install...); err != nil {
		return fmt.Errorf("%w; installing it failed: %w", missing, err)
	}
	opts.log("installed Podman")
	return nil
}

// engineFix is what provides a container engine, after Detect returned err: a Docker that is there is made usable before
// Podman is installed.
func engineFix(err error, debian bool) string {
	switch {
	case errors.Is(err, ErrDenied):
		return `sudo usermod -aG docker "$USER", and log in again (members of this group can become root); or rootless Docker: dockerd-rootless-setuptool.sh install`
	case errors.Is(err, errNoDaemon) && os.Getenv("DOCKER_HOST") != "":
		return "unset DOCKER_HOST, or start the daemon that it names: " + os.Getenv("DOCKER_HOST")
	case errors.Is(err, errNoDaemon):
		return "sudo systemctl start docker"
	case debian:
		return asRoot(installCommand(podmanPackages()...))
	}
	return "see https://docs.docker.com/engine/install/"
}

// asRoot is a command as this user has to run it.
func asRoot(command string) string {
	if os.Geteuid() == 0 {
		return command
	}
	return "sudo " + command
}

func aptGet(ctx context.Context, args ...string) error {
	cmd := OwnGroup(exec.CommandContext(ctx, "apt-get", args...))
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	_, err := output(ctx, cmd)
	return err
}

// debianLike reports whether the content of an os-release file names Debian,
// Ubuntu or a derivative.
func debianLike(release string) bool {
	var systems []string
	for line := range strings.Lines(release) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if name == "ID" || name == "ID_LIKE" {
			systems = append(systems, strings.Fields(strings.Trim(value, `"'`))...)
		}
	}
	return slices.Contains(systems, "debian") || slices.Contains(systems, "ubuntu")
}
