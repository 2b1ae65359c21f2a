package scenarios

import (
	"cmp"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Probe is the load of the DNS prober, in queries per second. What is left out has
// its default.
type Probe struct {
	// Transport is the protocol of the queries to the service; with both, which may also be written [udp, tcp], each of
	// them has the rates below. The control is always queried over UDP.
	Transport Transport `yaml:"transport,omitempty"`
	// Fresh is the rate of queries from a new source port each, like those of a stub
	// resolver. Over TCP, each opens a connection.
	Fresh int `yaml:"fresh,omitempty"`
	// Fixed is the rate of queries from a few source ports, like those of a node-local
	// cache. Over TCP, the connections are kept open.
	Fixed int `yaml:"fixed,omitempty"`
	// FixedPorts is the number of these ports, or of the connections that are kept open.
	FixedPorts int `yaml:"fixedPorts,omitempty"`
	// Control is the rate of queries to the control, a CoreDNS pod that no step touches.
	Control int `yaml:"control,omitempty"`
	// Probers is the number of pods that share these rates, 1 to 4. Each runs on its own
	// node, with its own kube-proxy rules and conntrack table, and no step touches that
	// node.
	Probers int `yaml:"probers,omitempty"`
	// Name is the DNS name that is queried.
	Name string `yaml:"name,omitempty"`
	// Names makes the queries of each mode take turns among so many names below Name. CoreDNS
	// caches external names for 5 s at least: with more than that many seconds' worth of queries,
	// each finds a cold cache. Left out, Name itself is queried.
	Names int `yaml:"names,omitempty"`
	// Application makes the probers request the workload's Service as well.
	Application *ApplicationProbe `yaml:"application,omitempty"`
}

// ApplicationProbe is the load of the probers on the workload's Service, in requests per second.
// What is left out has its default.
type ApplicationProbe struct {
	// Transport is what a request is: an HTTP/1.1 GET, or a TCP connection that is opened and
	// closed.
	Transport ApplicationTransport `yaml:"transport,omitempty"`
	// Fresh is the rate of requests over a new connection each.
	Fresh int `yaml:"fresh,omitempty"`
	// Fixed is the rate of requests over connections that are kept; only of http, by default 100.
	Fixed int `yaml:"fixed,omitempty"`
	// FixedPorts is the most connections that are kept, by default 8.
	FixedPorts int `yaml:"fixedPorts,omitempty"`
	// Control is the rate of requests to the control, a pod of the same program that no step
	// touches.
	Control int `yaml:"control,omitempty"`
}

// Transport is what carries the queries.
type Transport string

// The transports.
const (
	UDP  Transport = "udp"
	TCP  Transport = "tcp"
	Both Transport = "both"
)

// Transports lists the transports of DNS.
func Transports() []Transport { return []Transport{UDP, TCP, Both} }

// UnmarshalYAML also reads a list of transports.
func (t *Transport) UnmarshalYAML(node *yaml.Node) error {
	var list strict.List[Transport]
	if err := list.UnmarshalYAML(node); err != nil {
		return err
	}
	if node.Kind == yaml.ScalarNode { // with the other fields, it is checked later
		*t = list[0]
		return nil
	}
	var err error
	*t, err = TransportOf(list...)
	return err
}

// TransportOf is the transport of queries over these.
func TransportOf(list ...Transport) (Transport, error) {
	slices.Sort(list)
	switch {
	case len(list) == 1 && list[0] != Both:
		return list[0], nil
	case slices.Equal(list, []Transport{TCP, UDP}):
		return Both, nil
	}
	return "", fmt.Errorf("transport %v is not known; allowed: %s, %s, or both of them", list, UDP, TCP)
}

// Modes are those of queries over UDP or TCP: from a port each, and from a few ports.
func (t Transport) Modes() (each, few history.Mode) {
	if t == TCP {
		return history.Connect, history.Kept
	}
	return history.Fresh, history.Fixed
}

// Each is UDP, TCP, or the two of them.
func (t Transport) Each() []Transport {
	if t == Both {
		return []Transport{UDP, TCP}
	}
	return []Transport{t}
}

// ApplicationTransport is what a request to an application is.
type ApplicationTransport string

// The transports of requests.
const (
	OverHTTP ApplicationTransport = "http"
	OverTCP  ApplicationTransport = "tcp"
)

// ApplicationTransports lists the transports of requests.
func ApplicationTransports() []ApplicationTransport {
	return []ApplicationTransport{OverHTTP, OverTCP}
}

// MaxProbers leaves one of the cluster's five nodes for the steps to act on.
const MaxProbers = 4

// MaxProbeNames bounds Probe.Names: 16 s of the default load.
const MaxProbeNames = 16384

// ProbeModes lists what a check of DNS can count: the queries from fresh ports, those
// from fixed ports, or all.
func ProbeModes() []string { return []string{"all", "fixed", "fresh"} }

// DefaultProbe is a busy node's DNS load, small enough for two shared cores.
func DefaultProbe() Probe {
	return Probe{Transport: UDP, Fresh: 1000, Fixed: 500, FixedPorts: 8, Control: 200, Probers: 1, Name: "kubernetes.default.svc.cluster.local."}
}

func (r Probe) withDefaults() Probe {
	d := DefaultProbe()
	return Probe{
		Transport: cmp.Or(r.Transport, d.Transport),
		Fresh:     cmp.Or(r.Fresh, d.Fresh), Fixed: cmp.Or(r.Fixed, d.Fixed), FixedPorts: cmp.Or(r.FixedPorts, d.FixedPorts),
		Control: cmp.Or(r.Control, d.Control), Probers: cmp.Or(r.Probers, d.Probers),
		Name: cmp.Or(r.Name, d.Name), Names: r.Names, Application: r.Application.withDefaults(),
	}
}

// DefaultApplicationProbe is the load of a small service. With two cores, the probers also have
// the queries of DNS to send.
func DefaultApplicationProbe() ApplicationProbe {
	return ApplicationProbe{Transport: OverHTTP, Fresh: 200, Fixed: 100, FixedPorts: 8, Control: 50}
}

func (a *ApplicationProbe) withDefaults() *ApplicationProbe {
	if a == nil {
		return nil
	}
	d := DefaultApplicationProbe()
	out := ApplicationProbe{Transport: cmp.Or(a.Transport, d.Transport), Fresh: cmp.Or(a.Fresh, d.Fresh), Fixed: a.Fixed, FixedPorts: a.FixedPorts, Control: cmp.Or(a.Control, d.Control)}
	if out.Transport == OverHTTP {
		out.Fixed, out.FixedPorts = cmp.Or(a.Fixed, d.Fixed), cmp.Or(a.FixedPorts, d.FixedPorts)
	}
	return &out
}

func (r Probe) validate(p *problems) {
	oneOf(p, "probe.transport", r.Transport, Transports())
	if r.Probers < 1 || r.Probers > MaxProbers {
		p.add("probe.probers", "%d is not within 1 to %d", r.Probers, MaxProbers)
		return
	}
	if r.Names < 0 || r.Names > MaxProbeNames {
		p.add("probe.names", "%d is not within 0 to %d", r.Names, MaxProbeNames)
	}
	for field, value := range map[string]int{"fresh": r.Fresh, "fixed": r.Fixed, "fixedPorts": r.FixedPorts, "control": r.Control} {
		if value < r.Probers {
			p.add("probe."+field, "%d is less than 1 for each prober", value)
		}
	}
	if r.Application != nil {
		r.Application.validate(r.Probers, p)
	}
}

func (a ApplicationProbe) validate(probers int, p *problems) {
	const where = "probe.application"
	oneOf(p, where+".transport", a.Transport, ApplicationTransports())
	rates := map[string]int{"fresh": a.Fresh, "control": a.Control}
	if a.Transport == OverHTTP {
		rates["fixed"], rates["fixedPorts"] = a.Fixed, a.FixedPorts
	} else if a.Fixed != 0 || a.FixedPorts != 0 {
		p.add(where+".fixed", "is only allowed with transport %s: a TCP connection that is kept is no request", OverHTTP)
	}
	for field, value := range rates {
		if value < probers {
			p.add(where+"."+field, "%d is less than 1 for each prober", value)
		}
	}
}
