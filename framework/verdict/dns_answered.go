package verdict

import (
	"fmt"
	"math"

	"github.com/spotdrill/spotdrill/scenarios"
)

// DNSAnswered has the parameters of checkDNSAnswered.
type DNSAnswered struct {
	// Mode selects the queries that count: from fresh ports, from fixed ports, or all.
	Mode string `yaml:"mode"`
	// Percent is the share that must be answered, such as 99.99.
	Percent float64 `yaml:"percent"`
}

// Validate checks the parameters.
func (c DNSAnswered) Validate(in *scenarios.Scope) {
	in.OneOf("mode", c.Mode, scenarios.ProbeModes())
	in.NeedsProbe()
	if c.Percent <= 0 || c.Percent > 100 {
		in.Problem("percent", "%v is not above 0 and at most 100", c.Percent)
	}
}

// DecidedBy is how long it needs the recording.
func (DNSAnswered) DecidedBy(scenarios.Times) scenarios.Observation { return scenarios.AtEnd() }

var checkDNSAnswered = check{
	Kind: Kind{
		ID: "dnsAnswered", Title: "dns answered (%s)",
		Requires: "At least this share of the queries to the DNS service is answered.",
		Fix:      checkDNSLost.Fix,
		Look:     checkDNSLost.Look,
	},
	judge: by(dnsAnswered),
}

// dnsAnswered requires that at most the rest of the share is lost.
func dnsAnswered(j judge, v Verdict, c DNSAnswered) Verdict {
	want := fmt.Sprintf("at least %v %% of the %s to the service answered", c.Percent, j.target.Queries)
	asked, lost := 0, 0
	if j.measured != nil {
		for _, s := range j.measured.Streams(c.Mode) {
			asked, lost = asked+s.Asked, lost+s.Lost
		}
	}
	// A share has a few digits, so that what they round to is meant.
	v = dnsLost(j, v, DNSLost{Mode: c.Mode, Max: int(math.Floor(float64(asked)*(100-c.Percent)/100 + 1e-6))})
	if v.Want = want; asked > 0 && v.Outcome != Unknown {
		answered := 100 * float64(asked-lost) / float64(asked)
		v.Numbers["answered_percent"] = answered
		v.Got = fmt.Sprintf("%.4f %% answered: %s", answered, v.Got)
	}
	return v
}
