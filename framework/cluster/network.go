package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/vpccni"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/kind"
)

// conflist gives each pod a point-to-point link, with the plugins that the pulled and the
// built node image both have.
var conflist = template.Must(template.New("cni").Parse(`{
  "cniVersion": "1.0.0",
  "name": "spotdrill",
  "plugins": [
    {
      "type": "ptp",
      "ipMasq": false,
      "mtu": 1500,
      "ipam": {
        "type": "host-local",
        "dataDir": "/run/cni-ipam-state",
        "routes": [{"dst": "0.0.0.0/0"}],
        "ranges": [[{"subnet": "{{.}}"}]]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`))

type podRange struct {
	node, podCIDR, ip string
}

// SetUpNetwork confines every running node to our own networks, undoes every CutOff and creates
// the pod network: a CNI configuration with the node's pod range, and a route to every
// other node's range. It is idempotent.
func (c *Cluster) SetUpNetwork(ctx context.Context) error {
	nodes, err := c.podRanges(ctx)
	if err != nil {
		return err
	}
	network, err := c.engine.Network(ctx, c.Network)
	if err != nil {
		return fmt.Errorf("read the cluster's network: %w", err)
	}
	_, err = onEach(nodes, func(n *podRange) ([]string, error) {
		return nil, c.setUpNode(ctx, *n, network.Subnets, nodes)
	})
	c.networkOutdated = err != nil
	return err
}

// setUpNode does for one node what SetUpNetwork does.
func (c *Cluster) setUpNode(ctx context.Context, n podRange, subnets []string, all []podRange) error {
	var conf bytes.Buffer
	if err := conflist.Execute(&conf, n.podCIDR); err != nil {
		return fmt.Errorf("render CNI configuration: %w", err)
	}
	script := confine(subnets) + masquerade + sink + reconnectAll + vpccni.Remove + writeConflist
	// A node that registered again may have the former range of another node.
	script += fmt.Sprintf("ip route del %s 2>/dev/null || true\n", n.podCIDR)
	for _, peer := range all {
		if peer.node != n.node {
			script += routeTo(peer)
		}
	}
	_, err := c.engine.Exec(ctx, n.node, &conf, "sh", "-ec", script)
	return wrap.Errorf(err, "set up the network of node %s", n.node)
}

func routeTo(n podRange) string { return fmt.Sprintf("ip route replace %s via %s\n", n.podCIDR, n.ip) }

// registered waits until a node that joins has its pod range: only a running kubelet creates
// the Node object. The lease would be no proof: that of a deleted Node stays until the garbage
// collector removes it, and the kubelet then needs 10 s to create another.
func (c *Cluster) registered(ctx context.Context, node string) error {
	return wait.Until(ctx, readyTimeout, "node "+node+" to register and to get a pod range", func(ctx context.Context) string {
		n, err := c.Clientset.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if n.Spec.PodCIDR == "" {
			return "it has none"
		}
		return ""
	})
}

// addToNetwork gives a node that joins the pod network, once it has its pod range.
func (c *Cluster) addToNetwork(ctx context.Context, node string) error {
	if err := c.registered(ctx, node); err != nil {
		return err
	}
	return c.newcomers.join(node, func(nodes []string) map[string]error { return c.addAllToNetwork(ctx, nodes) })
}

// addAllToNetwork gives nodes that join the pod network, and returns why one does not get it. In the other nodes,
// those that are down are left out; the others get routes to the new ones, and are otherwise left as
// they are.
func (c *Cluster) addAllToNetwork(ctx context.Context, joined []string) map[string]error {
	failed := map[string]error{}
	fail := func(err error) map[string]error {
		for _, node := range joined {
			failed[node] = errors.Join(failed[node], err)
		}
		return failed
	}
	list, err := c.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fail(fmt.Errorf("list nodes: %w", err))
	}
	up, err := c.podRangesOf(ctx, c.withContainers(list.Items))
	if err != nil {
		return fail(err)
	}
	isNew := func(w podRange) bool { return slices.Contains(joined, w.node) }
	var routes strings.Builder
	for _, w := range up {
		if isNew(w) {
			routes.WriteString(routeTo(w))
		}
	}
	for _, node := range joined {
		if !slices.ContainsFunc(up, func(w podRange) bool { return w.node == node }) {
			failed[node] = fmt.Errorf("container %s does not run any more", node)
		}
	}
	network, err := c.engine.Network(ctx, c.Network)
	if err != nil {
		return fail(fmt.Errorf("read the cluster's network: %w", err))
	}
	type result struct {
		node string
		err  error
	}
	results, err := onEach(up, func(n *podRange) ([]result, error) {
		if isNew(*n) {
			return []result{{n.node, c.setUpNode(ctx, *n, network.Subnets, up)}}, nil
		}
		_, err := c.engine.Exec(ctx, n.node, nil, "sh", "-ec", routes.String())
		if err == nil {
			return nil, nil
		}
		if running, inspected := c.engine.Running(ctx, n.node); inspected == nil && !running {
			return nil, nil // its instance was terminated meanwhile
		}
		return nil, fmt.Errorf("routes from node %s to %s: %w", n.node, strings.Join(joined, ", "), err)
	})
	for _, r := range results {
		failed[r.node] = r.err
	}
	if err != nil {
		return fail(err)
	}
	return failed
}

// writeConflist replaces the file atomically, and only if it has changed: the node becomes
// not Ready if containerd cannot parse the file. The new file is written to the same
// folder, since containerd notices a rename within it, but no file moved into it.
const writeConflist = `cd /etc/cni/net.d; cat > spotdrill.new
if cmp -s spotdrill.new 10-spotdrill.conflist; then rm spotdrill.new; else mv spotdrill.new 10-spotdrill.conflist; fi
`

// confine returns a script that drops every packet from the node to anywhere but the
// cluster's own networks. Without kube-proxy, queries to the cluster IP would follow the
// default route, perhaps to a resolver that answers them. The rules are in the node's
// network namespace: they need no privileges on the host, and disappear with the node.
func confine(subnets []string) string {
	var b strings.Builder
	b.WriteString("for t in iptables ip6tables; do $t -w -N SPOTDRILL 2>/dev/null || $t -w -F SPOTDRILL || continue\n")
	b.WriteString("for h in OUTPUT FORWARD; do $t -w -C $h -o eth0 -j SPOTDRILL 2>/dev/null || $t -w -I $h -o eth0 -j SPOTDRILL; done; done\n")
	for _, subnet := range append([]string{kind.PodSubnet}, subnets...) {
		tool := "iptables"
		if strings.Contains(subnet, ":") {
			tool = "ip6tables"
		}
		fmt.Fprintf(&b, "%s -w -A SPOTDRILL -d %s -j RETURN\n", tool, subnet)
	}
	// Docker's rules in the node redirect queries for container names to its resolver at
	// this address before this chain sees them, still with eth0 as their interface.
	b.WriteString("iptables -w -A SPOTDRILL -d 127.0.0.0/8 -j RETURN\n")
	// The IPv6 subnet does not work without neighbour discovery.
	b.WriteString("ip6tables -w -A SPOTDRILL -d ff02::/16 -j RETURN || true\n")
	b.WriteString("iptables -w -A SPOTDRILL -j DROP; ip6tables -w -A SPOTDRILL -j DROP || true\n")
	// It is tried with a packet to an address for documentation (RFC 5737), which no host has.
	b.WriteString("if bash -c 'echo > /dev/udp/198.51.100.53/9' 2>/dev/null; then echo 'a packet to 198.51.100.53 left the node: its firewall rules do not hold' >&2; exit 1; fi\n")
	return b.String()
}

// masquerade lets pods reach hosts on the nodes' network that have no route to pods, such
// as LocalStack: the source address becomes that of the node.
var masquerade = strings.ReplaceAll(`iptables -w -t nat -N SPOTDRILL 2>/dev/null || iptables -w -t nat -F SPOTDRILL
iptables -w -t nat -C POSTROUTING -o eth0 -j SPOTDRILL 2>/dev/null || iptables -w -t nat -A POSTROUTING -o eth0 -j SPOTDRILL
iptables -w -t nat -A SPOTDRILL -s PODS ! -d PODS -j MASQUERADE
`, "PODS", kind.PodSubnet)

// sink takes the packets to pods that have ended: on their node, no route has their address any more, and by the default
// route they would leave the machine. A bridge without ports drops them after connection tracking has confirmed the flow, which
// lost queries are explained by; a blackhole route would do so before. Without ARP, no sender gets an error.
var sink = strings.ReplaceAll(`ip link show spotdrill-sink >/dev/null 2>&1 || ip link add spotdrill-sink type bridge
ip link set spotdrill-sink arp off up
ip route replace PODS dev spotdrill-sink
`, "PODS", kind.PodSubnet)

// podRanges waits until every node has its pod range and address.
func (c *Cluster) podRanges(ctx context.Context) ([]podRange, error) {
	var out []podRange
	err := wait.Until(ctx, readyTimeout, "the nodes' pod ranges", func(ctx context.Context) string {
		list, err := c.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		nodes := c.withContainers(list.Items)
		if out, err = c.podRangesOf(ctx, nodes); err != nil {
			return err.Error()
		}
		for _, n := range nodes {
			if !slices.ContainsFunc(out, func(w podRange) bool { return w.node == n.Name }) {
				return fmt.Sprintf("node %s has none, or its container does not run", n.Name)
			}
		}
		return ""
	})
	return out, err
}

// podRangesOf returns the podRanges of those nodes that run and have a pod range. In the API's
// addresses, some may be from before a restart.
func (c *Cluster) podRangesOf(ctx context.Context, nodes []corev1.Node) ([]podRange, error) {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	ips, err := c.engine.ContainerIPs(ctx, c.Network, names...)
	if err != nil {
		return nil, fmt.Errorf("read the nodes' addresses: %w", err)
	}
	var out []podRange
	for _, n := range nodes {
		if ip := ips[n.Name]; ip != "" && n.Spec.PodCIDR != "" {
			out = append(out, podRange{node: n.Name, podCIDR: n.Spec.PodCIDR, ip: ip})
		}
	}
	return out, nil
}

// RemoveVPCCNI removes from all nodes what the add-on vpc-cni has left there, once its pods are
// gone.
func (c *Cluster) RemoveVPCCNI(ctx context.Context) error {
	_, err := onEach(c.Nodes, func(n *Node) ([]string, error) {
		_, err := c.engine.Exec(ctx, n.Name, nil, "sh", "-ec", vpccni.Remove)
		return nil, err
	})
	return err
}

// newcomers are nodes that join at about the same time. A route to one of
// them takes a process in each other node's container, so they get theirs together: while some do, the
// others wait, and are the next.
type newcomers struct {
	turn sync.Mutex // held while some get their routes

	mu      sync.Mutex
	waiting []*newcomer
}

// newcomer is a node that waits; the rest is set when it has its routes.
type newcomer struct {
	node string
	done bool
	err  error
}

// join returns when the node has its routes. One call of add gives them to all that wait, and returns
// why nodes did not get them, by their names.
func (n *newcomers) join(node string, add func(nodes []string) map[string]error) error {
	own := &newcomer{node: node}
	n.mu.Lock()
	n.waiting = append(n.waiting, own)
	n.mu.Unlock()

	n.turn.Lock()
	defer n.turn.Unlock()
	if own.done {
		return own.err // with those of another call
	}
	n.mu.Lock()
	batch := n.waiting
	n.waiting = nil
	n.mu.Unlock()
	names := make([]string, len(batch))
	for i, b := range batch {
		names[i] = b.node
	}
	failed := add(names)
	for _, b := range batch {
		b.done, b.err = true, failed[b.node]
	}
	return own.err
}
