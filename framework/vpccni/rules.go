package vpccni

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// table is the name of the table of nftables on a node.
const table = "spotdrill-vpc-cni"

// Remove is the shell script that takes back on a node what the add-on has left there, if
// anything.
const Remove = "nft delete table inet " + table + " 2>/dev/null || true\n{ echo 1 > " + earlyDemux + "; } 2>/dev/null || true\n"

// earlyDemux is the sysctl that the init container writes, in the network of its node.
const earlyDemux = "/proc/sys/net/ipv4/tcp_early_demux"

// node is what decides about the traffic of pods with security groups on a node.
type node struct {
	podENI, earlyDemux bool
}

// script is what nft reads to replace the rules of a node in one transaction.
func (n node) script(pods []netip.Addr) string {
	var b strings.Builder
	fmt.Fprintf(&b, "add table inet %[1]s\ndelete table inet %[1]s\n", table)
	if len(pods) == 0 || n.podENI && !n.earlyDemux {
		return b.String()
	}
	slices.SortFunc(pods, netip.Addr.Compare)
	addresses := make([]string, len(pods))
	for i, p := range pods {
		addresses[i] = p.String()
	}
	fmt.Fprintf(&b, "table inet %s {\n\tset pods { type ipv4_addr; elements = { %s } }\n", table, strings.Join(addresses, ", "))
	if !n.podENI {
		b.WriteString("\tchain forwarded { type filter hook forward priority filter; ip daddr @pods drop; ip saddr @pods drop; }\n")
	}
	if n.earlyDemux {
		b.WriteString("\tchain local { type filter hook output priority filter; ip daddr @pods meta l4proto tcp drop; }\n")
	}
	b.WriteString("}\n")
	return b.String()
}
