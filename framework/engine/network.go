package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// ErrNoNetwork says that the engine has no network of that name.
var ErrNoNetwork = errors.New("no such network")

// Network is a bridge network of the engine.
type Network struct {
	Name   string
	Labels map[string]string
	// Bridge is the name of its interface on the engine's host. Podman makes that
	// interface when the first container joins.
	Bridge  string
	Subnets []string // in CIDR notation
}

// Network returns what the engine knows about a network, or ErrNoNetwork.
func (e *Engine) Network(ctx context.Context, name string) (*Network, error) {
	names, err := e.Run(ctx, "network", "ls", "--format", "{{.Name}}")
	if err != nil {
		return nil, err
	}
	if !slices.Contains(strings.Fields(names), name) {
		return nil, fmt.Errorf("network %s: %w", name, ErrNoNetwork)
	}
	out, err := e.Run(ctx, "network", "inspect", name)
	if err != nil {
		return nil, err
	}
	network, err := parseNetwork([]byte(out))
	if err != nil {
		return nil, fmt.Errorf("%s network inspect %s: %w", e.Name, name, err)
	}
	return network, nil
}

// parseNetwork reads the first network of what Docker or Podman print.
func parseNetwork(inspected []byte) (*Network, error) {
	type subnet struct{ Subnet string }
	var networks []struct {
		Name, ID string
		Labels   map[string]string
		// Podman
		Interface string `json:"network_interface"`
		Subnets   []subnet
		// Docker
		Options map[string]string
		IPAM    struct{ Config []subnet } `json:"IPAM"`
	}
	if err := json.Unmarshal(inspected, &networks); err != nil {
		return nil, err
	}
	if len(networks) == 0 {
		return nil, errors.New("printed no network")
	}
	found := networks[0]
	network := &Network{Name: found.Name, Labels: found.Labels, Bridge: found.Interface}
	if network.Bridge == "" {
		network.Bridge = found.Options["com.docker.network.bridge.name"]
	}
	if network.Bridge == "" && len(found.ID) >= 12 {
		network.Bridge = "br-" + found.ID[:12]
	}
	for _, s := range append(found.Subnets, found.IPAM.Config...) {
		network.Subnets = append(network.Subnets, s.Subnet)
	}
	return network, nil
}

// EnsureNetwork makes the network with labels unless it is there. One of that name
// without these labels is somebody else's and is an error.
func (e *Engine) EnsureNetwork(ctx context.Context, name string, labels map[string]string) (*Network, error) {
	network, err := e.Network(ctx, name)
	if errors.Is(err, ErrNoNetwork) {
		args := []string{"network", "create", "--driver", "bridge"}
		for key, value := range labels {
			args = append(args, "--label", key+"="+value)
		}
		if _, err := e.Run(ctx, append(args, name)...); err != nil {
			return nil, err
		}
		network, err = e.Network(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	for key, value := range labels {
		if network.Labels[key] != value {
			return nil, fmt.Errorf("%s network %s is there already without the label %s=%s, so it is not ours: remove it, or choose another name", e.Name, name, key, value)
		}
	}
	return network, nil
}

// KeepBridgeAddress has the network's bridge keep the hardware address that it has,
// once there is one. Linux gives a bridge the lowest of its ports' addresses, and
// Podman leaves it at that: when the container with that port is killed, the bridge
// has another address, and what containers answer to this host is lost for seconds,
// until they ask for it anew. Docker sets one. Without root it returns ErrNeedsRoot.
func (e *Engine) KeepBridgeAddress(ctx context.Context, network string) error {
	if err := mayChangeHost(); err != nil {
		return err
	}
	found, err := e.Network(ctx, network)
	if err != nil {
		return err
	}
	return keepAddress(ctx, found.Bridge)
}

func keepAddress(ctx context.Context, bridge string) error {
	found, err := net.InterfaceByName(bridge)
	if err != nil {
		return nil //nolint:nilerr // no container has joined yet, or the engine's host is another
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return errors.New("keeping a bridge's address needs the command ip: install the package iproute2")
	}
	// What is set is kept, also where it is the same (NET_ADDR_SET).
	_, err = output(ctx, OwnGroup(exec.CommandContext(ctx, "ip", "link", "set", "dev", bridge, "address", found.HardwareAddr.String())))
	return err
}

// RemoveNetwork removes a network; one that does not exist is no error.
func (e *Engine) RemoveNetwork(ctx context.Context, name string) error {
	if _, err := e.Network(ctx, name); err != nil {
		if errors.Is(err, ErrNoNetwork) {
			return nil
		}
		return err
	}
	// Podman counts a container for a moment after it was removed.
	for try := 1; ; try++ {
		_, err := e.Run(ctx, "network", "rm", name)
		if err == nil || try == networkTries {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// networkTries is how often the removal of a network is tried, a second apart.
const networkTries = 5
