package coredns

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// DNSPort is the port of DNS: that of the Service, and of the pods if their settings have no other.
const DNSPort = 53

// TrafficDistribution is which pods a Service prefers, as Kubernetes has it.
type TrafficDistribution string

// The traffic distributions. PreferClose is another name of PreferSameZone.
const (
	PreferSameNode TrafficDistribution = "PreferSameNode"
	PreferSameZone TrafficDistribution = "PreferSameZone"
	PreferClose    TrafficDistribution = "PreferClose"
)

// TrafficDistributions lists every one.
func TrafficDistributions() []TrafficDistribution {
	return []TrafficDistribution{PreferSameNode, PreferSameZone, PreferClose}
}

// Since is the first version of Kubernetes that has it by default; empty if every one has that is known here.
func (t TrafficDistribution) Since() string {
	if t == PreferSameNode || t == PreferSameZone {
		return "v1.34"
	}
	return ""
}

// PodPort is the port at which the pods answer.
func (s Settings) PodPort() int { return cmp.Or(s.Port, DNSPort) }

// ofService is what differs from kubeadm in how the Service reaches the pods, in words.
func (s Settings) ofService() (words []string) {
	if s.PodPort() != DNSPort {
		words = append(words, fmt.Sprintf("port %d", s.Port))
	}
	if s.TrafficDistribution != "" {
		words = append(words, "trafficDistribution "+string(s.TrafficDistribution))
	}
	return words
}

// serverAddress is an address of a server block. The port is that of the transport if it has none.
type serverAddress struct{ transport, zone, port string }

// dns reports whether it serves DNS without encryption.
func (a serverAddress) dns() bool { return a.transport == "dns" }

// serverAddressOf splits an address of a server block as CoreDNS does.
func serverAddressOf(key string) serverAddress {
	transport, zone, given := strings.Cut(key, "://")
	if !given || transports[transport] == "" {
		transport, zone = "dns", key
	}
	if i := strings.LastIndex(zone, ":"); i >= 0 {
		if _, err := strconv.Atoi(zone[i+1:]); err == nil {
			return serverAddress{transport, zone[:i], zone[i+1:]}
		}
	}
	return serverAddress{transport, zone, transports[transport]}
}

// Port is where the first server block serves DNS without encryption; 53 if none does, or it is unknown.
func (c Corefile) Port() int {
	for _, b := range c.parser.blocks {
		for _, key := range b.keys {
			if a := serverAddressOf(key); a.dns() {
				n, _ := strconv.Atoi(a.port)
				return cmp.Or(n, DNSPort)
			}
		}
	}
	return DNSPort
}

// ServesAt returns an error if a server block serves DNS without encryption at another port, or none does. Queries to
// a Service all get to the one port of its pods.
func (c Corefile) ServesAt(port int) error {
	served := false
	for _, b := range c.parser.blocks {
		for _, key := range b.keys {
			a := serverAddressOf(key)
			n, _ := strconv.Atoi(a.port)
			switch {
			case !a.dns():
			case isUnknown(key) && !strings.HasSuffix(key, ":"+a.port):
				return fmt.Errorf("line %d: the port of the server block %s is unknown", b.start.Line, key)
			case n != port:
				return fmt.Errorf("line %d: the server block %s is at port %d", b.start.Line, key, n)
			default:
				served = true
			}
		}
	}
	if !served {
		return errors.New("no server block serves DNS without encryption")
	}
	return nil
}

// WithPort returns the text with all server blocks that serve DNS without encryption at a port.
// It is an error if the lines cannot be changed so.
func WithPort(text string, port int) (string, error) {
	lines := strings.SplitAfter(text, "\n")
	for _, b := range Read(Source{Text: text}).parser.blocks {
		if b.start.Line == 0 {
			continue
		}
		line := &lines[b.start.Line-1]
		for _, key := range b.keys {
			if a := serverAddressOf(key); a.dns() {
				*line = strings.Replace(*line, key, strings.TrimSuffix(key, ":"+a.port)+":"+strconv.Itoa(port), 1)
			}
		}
	}
	text = strings.Join(lines, "")
	if err := Read(Source{Text: text}).ServesAt(port); err != nil {
		return "", fmt.Errorf("make the Corefile serve at port %d: %w", port, err)
	}
	return text, nil
}
