package verdict

import (
	"fmt"
	"math"

	"github.com/spotdrill/spotdrill/scenarios"
)

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
func dnsAnswered(j judge, v Verdict, c scenarios.DNSAnswered) Verdict {
	want := fmt.Sprintf("at least %v %% of the %s to the service answered", c.Percent, j.target.Queries)
	asked, lost := 0, 0
	if j.measured != nil {
		for _, s := range j.measured.Streams(c.Mode) {
			asked, lost = asked+s.Asked, lost+s.Lost
		}
	}
	// A share has a few digits, so that what they round to is meant.
	v = dnsLost(j, v, scenarios.DNSLost{Mode: c.Mode, Max: int(math.Floor(float64(asked)*(100-c.Percent)/100 + 1e-6))})
	if v.Want = want; asked > 0 && v.Outcome != Unknown {
		answered := 100 * float64(asked-lost) / float64(asked)
		v.Numbers["answered_percent"] = answered
		v.Got = fmt.Sprintf("%.4f %% answered: %s", answered, v.Got)
	}
	return v
}
