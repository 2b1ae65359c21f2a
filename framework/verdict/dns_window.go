package verdict

import (
	"fmt"
	"strings"

	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// DNSWindow has the parameters of checkDNSWindow.
type DNSWindow struct {
	// Mode selects the queries that count: from fresh ports, from fixed ports, or all.
	Mode string `yaml:"mode"`
	// Min is the shortest that the window may be.
	Min strict.Duration `yaml:"min,omitempty"`
	// Max is the longest that the window may be.
	Max strict.Duration `yaml:"max,omitempty"`
}

// Validate checks the parameters.
func (c DNSWindow) Validate(in *scenarios.Scope) {
	in.OneOf("mode", c.Mode, scenarios.ProbeModes())
	in.NeedsProbe()
	validateBounds(in, c.Min, c.Max)
}

// DecidedBy is how long it needs the recording.
func (DNSWindow) DecidedBy(scenarios.Times) scenarios.Observation { return scenarios.AtEnd() }

var checkDNSWindow = check{
	Kind: Kind{
		ID: "dnsWindow", Title: "dns window (%s)",
		Requires: "The longest window of lost queries at the DNS service is within these bounds, of which at least one is set.",
		Fix:      "compare the window with lameduck and with the readiness probe's period times its threshold in the report's timeline; the longer of them is what to change",
		Look:     Look{Lane: LaneDNS, Text: "the lane DNS answers: where the window opens, and what the endpoint and CoreDNS lanes show just before"},
	},
	judge: by(dnsWindow),
}

func dnsWindow(j judge, v Verdict, c DNSWindow) Verdict {
	var bounds []string
	if c.Min > 0 {
		bounds = append(bounds, "at least "+c.Min.D().String())
	}
	if c.Max > 0 {
		bounds = append(bounds, "at most "+c.Max.D().String())
	}
	v = v.wants("the longest window of lost "+j.target.Queries+" "+strings.Join(bounds, " and ")+" long", c.Mode)
	if len(bounds) == 0 {
		return v.unknown("the check gives no bound")
	}
	v, ok := j.judgeable(v, c.Mode)
	if !ok {
		return v
	}
	streams, except := j.counted(&v, c.Mode, false)
	why := j.attribution()
	all, open := streams.Longest()
	surely := why.Unbroken(why.Steady(streams))
	holes := why.Hiding(streams, false)
	hidden, _ := why.Hidden(holes, streams)
	evidence := j.around(streams)
	got := j.windowsOf(streams) + except
	switch {
	case c.Max > 0 && surely > c.Max.D():
		return v.fail(got, evidence...)
	case hidden > 0 && (c.Max > 0 && all.Length()+hidden > c.Max.D() || why.Unbroken(streams) < c.Min.D() && all.Length()+hidden >= c.Min.D()):
		return v.noise(fmt.Sprintf("%s, and %s", got, holes[0]), evidence...)
	case c.Max > 0 && all.Length() > c.Max.D(), why.Undisturbed(all) < c.Min.D() && all.Length() >= c.Min.D():
		return v.noise("the control was lost or late at the same time: "+got, evidence...)
	case c.Max > 0 && open:
		return v.unknown("a window was still open when the recording ended: "+got, evidence...)
	case all.Length() < c.Min.D() && open:
		return v.unknown("a window was still open when the recording ended: "+got, evidence...)
	case all.Length() < c.Min.D():
		return v.fail(got, evidence...)
	}
	return v.pass(got, evidence...)
}

// validateBounds checks the bounds of a window.
func validateBounds(in *scenarios.Scope, least, most strict.Duration) {
	switch {
	case least == 0 && most == 0:
		in.Problem("", "requires min, max or both")
	case most > 0 && least > most:
		in.Problem("min", "%s is more than max (%s)", least.D(), most.D())
	}
}
