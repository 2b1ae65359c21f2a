package cluster

import (
	"context"
	"fmt"
	"strings"
)

// NodeSystem is what the nodes' image has besides Kubernetes. A pulled image has other versions than one that was built, and
// may lack something.
type NodeSystem struct {
	// Words name its versions, and what it lacks, for reports.
	Words string
	// NoShutdown is why no node can be shut down by its own operating system; empty if each can.
	NoShutdown string
}

// readNodeSystem prints, inside a node, a line for each thing: its name, and its version or the path of its program.
const readNodeSystem = `. /etc/os-release; echo "system $PRETTY_NAME"
echo "systemd $(systemctl --version | sed -n '1s/^systemd \([^ ]*\).*/\1/p')"
echo "containerd $(containerd --version | sed 's/.* \(v[^ ]*\).*/\1/')"
echo "runc $(runc --version | sed -n '1s/^runc version //p')"
echo "GOGC $(systemctl show kubelet --property=Environment | grep -o 'GOGC=[0-9]*' | cut -d= -f2)"
for tool in conntrack nft ipvsadm busctl; do echo "$tool $(command -v $tool)"; done
echo "D-Bus $(command -v dbus-daemon || command -v dbus-broker)"
for login in /usr/lib/systemd/systemd-logind /lib/systemd/systemd-logind; do [ ! -x $login ] || echo "systemd-logind $login"; done`

// System reads it from the first worker.
func (c *Cluster) System(ctx context.Context) (NodeSystem, error) {
	printed, err := c.engine.Exec(ctx, WorkerNames(c.Name)[0], nil, "sh", "-c", readNodeSystem)
	if err != nil {
		return NodeSystem{}, fmt.Errorf("read what the nodes' image has: %w", err)
	}
	return nodeSystemIn(printed), nil
}

func nodeSystemIn(printed string) NodeSystem {
	found := map[string]string{}
	for line := range strings.Lines(printed) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		found[name] = value
	}
	words := []string{found["system"]}
	for _, name := range []string{"systemd", "containerd", "runc", "GOGC"} {
		if found[name] != "" {
			words = append(words, name+" "+found[name])
		}
	}
	var lacks, login []string
	for _, name := range []string{"conntrack", "nft", "ipvsadm", "busctl", "D-Bus", "systemd-logind", "GOGC"} {
		if found[name] == "" {
			lacks = append(lacks, name)
		}
	}
	for _, name := range []string{"busctl", "D-Bus", "systemd-logind"} {
		if found[name] == "" {
			login = append(login, name)
		}
	}
	if len(lacks) > 0 {
		words = append(words, "without "+strings.Join(lacks, " and "))
	}
	s := NodeSystem{Words: strings.Join(words, ", ")}
	if len(login) > 0 {
		s.NoShutdown = fmt.Sprintf("cannot be arranged: the image of the nodes has no %s, by which an operating system shuts down and its kubelet delays that", strings.Join(login, " and no "))
	}
	return s
}
