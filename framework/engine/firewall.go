package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
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
func confinement(network, bridge, filterChain string) []rule {
	comment := []string{"-m", "comment", "--comment", ruleComment(network)}
	return []rule{
		{"mangle", "FORWARD", slices.Concat([]string{"-i", bridge, "!", "-o", bridge}, comment, []string{"-j", "DROP"})},
		{"filter", filterChain, slices.Concat([]string{"-i", bridge, "-o", bridge}, comment, []string{"-j", "ACCEPT"})},
	}
}

func ruleComment(network string) string { return "spotdrill-" + network }

// ConfineNetwork makes the host drop packets of the network's containers that leave
// their bridge, and accept packets between them, for IPv4 and, if the kernel has it,
// IPv6. It is idempotent. Without root it returns ErrNeedsRoot.
func (e *Engine) ConfineNetwork(ctx context.Context, network string) error {
	found, err := e.Network(ctx, network)
	if err != nil {
		return err
	}
	tools, err := e.firewallTools(ctx)
	if err != nil {
		return err
	}
	if e.Name == docker && !exists("/sys/class/net/"+found.Bridge) {
		return fmt.Errorf("bridge %s of network %s is not on this host: %w", found.Bridge, network, ErrNeedsRoot)
	}
	for _, tables := range tools {
		chain := "FORWARD"
		if e.Name == docker && tables.works(ctx, "-n", "-L", "DOCKER-USER") {
			chain = "DOCKER-USER"
		}
		for _, r := range confinement(network, found.Bridge, chain) {
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
	tools := []firewallTool{"iptables"}
	if v6 := firewallTool("ip6tables"); v6.works(ctx, "-n", "-L", "FORWARD") {
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
