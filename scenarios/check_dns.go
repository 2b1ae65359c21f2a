package scenarios

import (
	"slices"

	"github.com/spotdrill/spotdrill/framework/strict"
)

// ProbeModes lists what a check of DNS can count: the queries from fresh ports, those
// from fixed ports, or all.
func ProbeModes() []string { return []string{"all", "fixed", "fresh"} }

// DNSLost requires that at most Max queries to the DNS service are lost.
type DNSLost struct {
	// Mode selects the queries that count: from fresh ports, from fixed ports, or all.
	Mode string `yaml:"mode"`
	// Max is how many queries may be lost.
	Max int `yaml:"max"`
	// ExceptConntrack does not count queries that connection tracking lost: those in
	// flight when kube-proxy removed their entry, and those for which the kernel could
	// not insert one. No CoreDNS setting prevents these losses.
	ExceptConntrack bool `yaml:"exceptConntrack,omitempty"`
}

func (c DNSLost) validate(where string, in *scope, p *problems) {
	oneOf(p, where+".mode", c.Mode, ProbeModes())
	in.needsProbe(where, p)
	p.atLeast0(where+".max", c.Max)
}

func (DNSLost) observed(Times) observation { return atEnd() }

// DNSWindow requires bounds on the longest window in which queries to the DNS service
// were lost. At least one of min and max is set.
type DNSWindow struct {
	// Mode selects the queries that count: from fresh ports, from fixed ports, or all.
	Mode string `yaml:"mode"`
	// Min is the shortest that the window may be.
	Min strict.Duration `yaml:"min,omitempty"`
	// Max is the longest that the window may be.
	Max strict.Duration `yaml:"max,omitempty"`
}

func (c DNSWindow) validate(where string, in *scope, p *problems) {
	oneOf(p, where+".mode", c.Mode, ProbeModes())
	in.needsProbe(where, p)
	validateBounds(where, c.Min, c.Max, p)
}

// validateBounds checks the bounds of a window.
func validateBounds(where string, least, most strict.Duration, p *problems) {
	switch {
	case least == 0 && most == 0:
		p.add(where, "requires min, max or both")
	case most > 0 && least > most:
		p.add(where+".min", "%s is more than max (%s)", least.D(), most.D())
	}
}

func (DNSWindow) observed(Times) observation { return atEnd() }

// EndpointLeft requires that the kube-dns endpoint of the node's CoreDNS pod stays ready
// after the node was reclaimed. It shows that only the node controller noticed the loss.
type EndpointLeft struct {
	Node string `yaml:"node"`
	// AtLeast is the shortest time that the endpoint must stay ready.
	AtLeast strict.Duration `yaml:"atLeast"`
}

func (c EndpointLeft) validate(where string, in *scope, p *problems) {
	in.node(where, c.Node, p)
	if slices.Contains(in.nodes, c.Node) && !slices.Contains(in.reclaimed, c.Node) {
		p.add(where+".node", "no step takes the instance of %q, so the check could never be decided", c.Node)
	}
	p.positive(where+".atLeast", c.AtLeast)
}

func (c EndpointLeft) observed(t Times) observation {
	return happens(t.Reclaimed[c.Node] + c.AtLeast.D())
}
