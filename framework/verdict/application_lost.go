package verdict

import (
	"github.com/spotdrill/spotdrill/scenarios"
)

// ApplicationLost has the parameters of checkApplicationLost.
type ApplicationLost struct {
	// Mode selects the requests that count: over fresh connections, over kept ones (fixed), or
	// all.
	Mode string `yaml:"mode"`
	// Max is how many requests may be lost.
	Max int `yaml:"max"`
}

// Validate checks the parameters.
func (c ApplicationLost) Validate(in *scenarios.Scope) {
	in.OneOf("mode", c.Mode, scenarios.ProbeModes())
	in.NeedsApplication(c.Mode)
	in.AtLeast0("max", c.Max)
}

// DecidedBy is how long it needs the recording.
func (ApplicationLost) DecidedBy(scenarios.Times) scenarios.Observation { return scenarios.AtEnd() }

var checkApplicationLost = check{
	Kind: Kind{
		ID: "applicationLost", Title: "application lost (%s)",
		Requires: "At most this many requests are lost at the workload's Service: refused, not answered in time, or not answered with an HTTP status below 400.",
		Fix:      applicationFix,
		Look:     Look{Lane: LaneDNS, Text: applicationLook},
	},
	judge: by(applicationLost),
}

func applicationLost(j judge, v Verdict, c ApplicationLost) Verdict {
	if j.application == nil {
		return v.wants("requests to an application", c.Mode).unknown(withoutApplication)
	}
	return dnsLost(*j.application, v, DNSLost{Mode: c.Mode, Max: c.Max})
}
