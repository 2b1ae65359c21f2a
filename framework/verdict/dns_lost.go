package verdict

import (
	"fmt"

	"github.com/spotdrill/spotdrill/scenarios"
)

// DNSLost has the parameters of checkDNSLost.
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

// Validate checks the parameters.
func (c DNSLost) Validate(in *scenarios.Scope) {
	in.OneOf("mode", c.Mode, scenarios.ProbeModes())
	in.NeedsProbe()
	in.AtLeast0("max", c.Max)
}

// DecidedBy is how long it needs the recording.
func (DNSLost) DecidedBy(scenarios.Times) scenarios.Observation { return scenarios.AtEnd() }

var checkDNSLost = check{
	Kind: Kind{
		ID: IDOfDNSLost, Title: "dns lost (%s)",
		Requires: "At most this many queries are lost at the DNS service.",
		Fix:      "set lameduck longer than kube-proxy and the readiness probe need to take the pod out of the Service, and the grace period longer than that",
		Look:     Look{Lane: LaneDNS, Text: "the lane DNS answers: where the window opens, and what the endpoint and CoreDNS lanes show just before"},
	},
	judge: by(dnsLost),
}

func dnsLost(j judge, v Verdict, c DNSLost) Verdict {
	v = v.wants(fmt.Sprintf("at most %d %s lost at the service", c.Max, j.target.Queries), c.Mode)
	v, ok := j.judgeable(v, c.Mode)
	if !ok {
		return v
	}
	streams, except := j.counted(&v, c.Mode, c.ExceptConntrack)
	lost, asked := streams.Lost(), 0
	for _, s := range streams {
		asked += s.Asked
	}
	why := j.attribution()
	steady := why.Steady(streams).Lost()
	holes := why.Hiding(streams, c.ExceptConntrack)
	_, hidden := why.Hidden(holes, streams)
	switch {
	case steady > c.Max:
		return v.fail(fmt.Sprintf("%d of %d lost%s; %s", lost, asked, except, j.windowsOf(streams)), j.around(streams)...)
	case lost > c.Max:
		return v.noise(fmt.Sprintf("%d of %d lost%s, only %d of them surely by the cluster: this machine was too busy meanwhile; %s", lost, asked, except, steady, j.windowsOf(streams)), j.around(streams)...)
	case lost+hidden > c.Max:
		return v.noise(fmt.Sprintf("%d of %d lost%s, and up to %d more might have been: %s", lost, asked, except, hidden, holes[0]))
	}
	return v.pass(fmt.Sprintf("%d of %d lost%s", lost, asked, except))
}
