package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// ErrNeedsRoot reports that this process may not change the host's firewall. The network
// can be confined inside its containers instead.
var ErrNeedsRoot = errors.New("changing the host's firewall needs root on the engine's own host")

// rule is one firewall rule: the words after -A, -C or -D.
type rule struct {
	table, chain string
	match        []string
}

// confinement returns the rules that keep a network's packets on its bridge. The drop is
// in the mangle table, which every forwarded packet passes before the filter table:
// Docker and Podman insert their own rules at the head of the filter table whenever a
// container starts, and those would accept first. The accept is needed if FORWARD's
// policy is DROP and bridged frames pass through it.
//
// To this host, containers only answer. With Podman, they also ask the resolver on the bridge's address in
// subnet for the names of each other; without a subnet, there is none.
func confinement(network, bridge, filterChain, subnet string) []rule {
	comment := []string{"-m", "comment", "--comment", ruleComment(network)}
	mangle := func(chain string, match ...string) rule {
		return rule{"mangle", chain, slices.Concat([]string{"-i", bridge}, match, comment, []string{"-j", "DROP"})}
	}
	begun := []string{"-m", "conntrack", "--ctstate", "NEW"}
	rules := []rule{
		mangle("FORWARD", "!", "-o", bridge),
		{"filter", filterChain, slices.Concat([]string{"-i", bridge, "-o", bridge}, comment, []string{"-j", "ACCEPT"})},
	}
	if subnet == "" {
		return append(rules, mangle("INPUT", begun...))
	}
	// Two that both hold in any order: rules are inserted one by one.
	return append(rules, mangle("INPUT", append(begun, "!", "--ctorigdstport", "53")...), mangle("INPUT", append([]string{"!", "-d", subnet}, begun...)...))
}

// askable is the subnet in which the engine answers DNS queries on the bridge's address, for a version of IP.
// Docker answers within the containers.
func (e *Engine) askable(network *Network, tool firewallTool) string {
	for _, subnet := range network.Subnets {
		if e.Name == podman && strings.Contains(subnet, ":") == (tool == ip6Tables) {
			return subnet
		}
	}
	return ""
}

func ruleComment(network string) string { return "spotdrill-" + network }

// ConfineNetwork makes the host drop packets of the network's containers that leave
// their bridge or begin something with this host, and accept packets between them, for IPv4 and, if the
// kernel has it, IPv6. It is idempotent. Without root it returns ErrNeedsRoot.
func (e *Engine) ConfineNetwork(ctx context.Context, network string) error {
	found, err := e.Network(ctx, network)
	if err != nil {
		return err
	}
	tools, err := e.firewallTools(ctx)
	if err != nil {
		return err
	}
	if err := e.onThisHost(found); err != nil {
		return err
	}
	for _, tables := range tools {
		chain := "FORWARD"
		if e.Name == docker && tables.works(ctx, "-n", "-L", "DOCKER-USER") {
			chain = "DOCKER-USER"
		}
		for _, r := range confinement(network, found.Bridge, chain, e.askable(found, tables)) {
			if tables.works(ctx, r.words("-C")...) {
				continue
			}
			if _, err := tables.run(ctx, r.words("-I")...); err != nil {
				return fmt.Errorf("confine network %s: %w", network, err)
			}
		}
	}
	return nil
}

// nowhere is an address for documentation (RFC 5737): no host has it.
const nowhere = "198.51.100.53"

// strays is a program that sends a packet to nowhere, and one to a port of this host.
const strays = `import socket, struct
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
gateways = [struct.pack("<L", int(route[2], 16)) for route in map(str.split, open("/proc/net/route")) if route[1] == "00000000"]
for to in ["` + nowhere + `"] + [socket.inet_ntoa(g) for g in gateways]:
    sender.sendto(b"spotdrill", (to, 9))
`

// ProveConfined sends packets from a container, which has Python, to where they must not get, and returns an
// error unless each rule of ConfineNetwork has dropped one. Without root it returns ErrNeedsRoot.
func (e *Engine) ProveConfined(ctx context.Context, network, container string) error {
	found, err := e.Network(ctx, network)
	if err != nil {
		return err
	}
	if err := errors.Join(mayChangeHost(), e.onThisHost(found)); err != nil {
		return err
	}
	before, err := dropped(ctx, network)
	if err != nil {
		return err
	}
	if _, err := e.Exec(ctx, container, strings.NewReader(strays), "python3", "-"); err != nil {
		return fmt.Errorf("send packets that must not leave network %s: %w", network, err)
	}
	after, err := dropped(ctx, network)
	if err != nil {
		return err
	}
	for _, c := range []struct{ chain, to string }{{"FORWARD", nowhere}, {"INPUT", "this host"}} {
		if after[c.chain] <= before[c.chain] {
			return fmt.Errorf("container %s sent a packet to %s, and no rule of network %s dropped it; look at iptables -t mangle -nvL %s", container, c.to, network, c.chain)
		}
	}
	return nil
}

// dropped counts the packets that the network's rules have dropped, by chain.
func dropped(ctx context.Context, network string) (map[string]int, error) {
	saved, err := ip4Tables.run(ctx, "-t", "mangle", "-S", "-v")
	if err != nil {
		return nil, fmt.Errorf("count dropped packets: %w", err)
	}
	return droppedIn(saved, network), nil
}

// droppedIn reads what iptables -S -v prints: each rule has -c PACKETS BYTES.
func droppedIn(saved, network string) map[string]int {
	packets := map[string]int{}
	for _, r := range ownRules(saved, "mangle", network) {
		if at := slices.Index(r.match, "-c"); at >= 0 && at+1 < len(r.match) {
			n, _ := strconv.Atoi(r.match[at+1])
			packets[r.chain] += n
		}
	}
	return packets
}

// onThisHost returns ErrNeedsRoot if the engine is on another host, as with Docker Desktop. Podman creates
// the bridge with the first container.
func (e *Engine) onThisHost(network *Network) error {
	if e.Name == docker && !exists("/sys/class/net/"+network.Bridge) {
		return fmt.Errorf("bridge %s of network %s is not on this host: %w", network.Bridge, network.Name, ErrNeedsRoot)
	}
	return nil
}

// ReleaseNetwork removes every rule that ConfineNetwork made for a network of that name,
// even if the network is gone.
func (e *Engine) ReleaseNetwork(ctx context.Context, network string) error {
	tools, err := e.firewallTools(ctx)
	if err != nil {
		return err
	}
	for _, tables := range tools {
		for _, table := range []string{"mangle", "filter"} {
			saved, err := tables.run(ctx, "-t", table, "-S")
			if err != nil {
				return fmt.Errorf("release network %s: %w", network, err)
			}
			for _, r := range ownRules(saved, table, network) {
				if _, err := tables.run(ctx, r.words("-D")...); err != nil {
					return fmt.Errorf("release network %s: %w", network, err)
				}
			}
		}
	}
	return nil
}

// ownRules picks from what `iptables -S` prints the rules with the network's comment.
func ownRules(saved, table, network string) []rule {
	var rules []rule
	for line := range strings.Lines(saved) {
		words := strings.Fields(strings.ReplaceAll(line, `"`, ""))
		at := slices.Index(words, "--comment")
		if len(words) > 2 && words[0] == "-A" && at > 0 && at+1 < len(words) && words[at+1] == ruleComment(network) {
			rules = append(rules, rule{table, words[1], words[2:]})
		}
	}
	return rules
}

// words returns the arguments of the firewall tools for an action (-I, -C or -D).
func (r rule) words(action string) []string {
	return slices.Concat([]string{"-t", r.table, action, r.chain}, r.match)
}

type firewallTool string

const (
	ip4Tables firewallTool = "iptables"
	ip6Tables firewallTool = "ip6tables"
)

func (t firewallTool) run(ctx context.Context, args ...string) (string, error) {
	return output(ctx, OwnGroup(exec.CommandContext(ctx, string(t), append([]string{"-w"}, args...)...)))
}

func (t firewallTool) works(ctx context.Context, args ...string) bool {
	_, err := t.run(ctx, args...)
	return err == nil
}

// firewallTools returns the commands for the IP versions of this host.
func (e *Engine) firewallTools(ctx context.Context) ([]firewallTool, error) {
	if err := mayChangeHost(); err != nil {
		return nil, err
	}
	if _, err := exec.LookPath("iptables"); err != nil {
		return nil, errors.New("keeping the network to itself needs iptables: install the package iptables")
	}
	tools := []firewallTool{ip4Tables}
	if v6 := ip6Tables; v6.works(ctx, "-n", "-L", "FORWARD") {
		tools = append(tools, v6)
	}
	return tools, nil
}

// mayChangeHost returns ErrNeedsRoot if this process cannot change the host's network.
func mayChangeHost() error {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return ErrNeedsRoot
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
