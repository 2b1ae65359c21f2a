package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// podmanPackages are Debian's and Ubuntu's packages of Podman, of the runtime that
// also runs on cgroup v1, and of its networks with name resolution.
func podmanPackages() []string {
	return []string{"podman", "runc", "netavark", "aardvark-dns", "iptables", "iproute2"}
}

func installCommand(packages ...string) string {
	return "apt-get install -y --no-install-recommends " + strings.Join(packages, " ")
}

// errNoEngine reports that there is no usable container engine.
var errNoEngine = errors.New("no container engine: Docker does not answer and Podman is not installed")

// installPodman installs Podman as root on Debian or Ubuntu. Anywhere else the
// error describes what to install.
func installPodman(ctx context.Context, opts Options) error {
	if release, err := os.ReadFile("/etc/os-release"); err != nil || !debianLike(string(release)) {
		return fmt.Errorf("%w; install Docker or Podman", errNoEngine)
	}
	if os.Geteuid() != 0 || !opts.Install {
		return fmt.Errorf("%w; start Docker, or run as root: %s", errNoEngine, installCommand(podmanPackages()...))
	}
	opts.log("installing Podman, because there is no container engine: %s", installCommand(podmanPackages()...))
	if err := aptGet(ctx, "update"); err != nil {
		return fmt.Errorf("%w; installing Podman failed: %w", errNoEngine, err)
	}
	install := append([]string{"install", "-y", "--no-install-recommends"}, podmanPackages()...)
	if err := aptGet(ctx, install...); err != nil {
		return fmt.Errorf("%w; installing Podman failed: %w", errNoEngine, err)
	}
	opts.log("installed Podman")
	return nil
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
