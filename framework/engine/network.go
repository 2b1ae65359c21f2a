package engine

import (
	"cmp"
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

// ErrNoNetwork reports that the engine has no network of that name.
var ErrNoNetwork = errors.New("no such network")

// Network is a bridge network of the engine.
type Network struct {
	Name   string
	Labels map[string]string
	// Bridge is the name of its interface on the engine's host. Podman creates it when
	// the first container joins.
	Bridge  string
	Subnets []string // in CIDR notation
}

// Network returns the network of that name, or ErrNoNetwork.
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

// parseNetwork reads the first network of the output of Docker or Podman.
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
	network := &Network{Name: found.Name, Labels: found.Labels, Bridge: cmp.Or(found.Interface, found.Options["com.docker.network.bridge.name"])}
	if network.Bridge == "" && len(found.ID) >= 12 {
		network.Bridge = "br-" + found.ID[:12]
	}
	for _, s := range append(found.Subnets, found.IPAM.Config...) {
		network.Subnets = append(network.Subnets, s.Subnet)
	}
	return network, nil
}

// EnsureNetwork creates the network with labels unless it exists. A network of that name
// without these labels belongs to somebody else and is an error.
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
			return nil, fmt.Errorf("%s network %s is there already without the label %s=%s, so it does not belong to spotdrill: remove it, or choose another name", e.Name, name, key, value)
		}
	}
	return network, nil
}

// KeepBridgeAddress makes the network's bridge keep its current hardware address. Linux
// gives a bridge the lowest address of its ports, and Podman does not change that. When
// the container with that port is killed, the address changes, and packets from
// containers to this host are lost for seconds, until they resolve it again with ARP.
// Docker sets an address itself. Without root it returns ErrNeedsRoot.
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
		return nil //nolint:nilerr // no container has joined yet, or the engine runs on another host
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return errors.New("fixing a bridge's address needs the command ip: install the package iproute2")
	}
	// Setting the same address again makes it permanent (NET_ADDR_SET).
	_, err = output(ctx, OwnGroup(exec.CommandContext(ctx, "ip", "link", "set", "dev", bridge, "address", found.HardwareAddr.String())))
	return err
}

// RemoveNetwork removes a network. It is no error if it does not exist.
func (e *Engine) RemoveNetwork(ctx context.Context, name string) error {
	if _, err := e.Network(ctx, name); err != nil {
		if errors.Is(err, ErrNoNetwork) {
			return nil
		}
		return err
	}
	// For a moment Podman still counts a container that was removed.
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

// networkTries is the number of attempts to remove a network, one second apart.
const networkTries = 5
