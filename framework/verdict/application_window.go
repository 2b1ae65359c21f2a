package verdict

import (
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// ApplicationWindow has the parameters of checkApplicationWindow.
type ApplicationWindow struct {
	// Mode selects the requests that count: over fresh connections, over kept ones (fixed), or
	// all.
	Mode string `yaml:"mode"`
	// Min is the shortest that the window may be.
	Min strict.Duration `yaml:"min,omitempty"`
	// Max is the longest that the window may be.
	Max strict.Duration `yaml:"max,omitempty"`
}

// Validate checks the parameters.
func (c ApplicationWindow) Validate(in *scenarios.Scope) {
	in.OneOf("mode", c.Mode, scenarios.ProbeModes())
	in.NeedsApplication(c.Mode)
	validateBounds(in, c.Min, c.Max)
}

// DecidedBy is how long it needs the recording.
func (ApplicationWindow) DecidedBy(scenarios.Times) scenarios.Observation { return scenarios.AtEnd() }

var checkApplicationWindow = check{
	Kind: Kind{
		ID: "applicationWindow", Title: "application window (%s)",
		Requires: "The longest window of lost requests at the workload's Service is within these bounds, of which at least one is set.",
		Fix:      applicationFix,
		Look:     Look{Lane: LaneDNS, Text: applicationLook},
	},
	judge: by(applicationWindow),
}

func applicationWindow(j judge, v Verdict, c ApplicationWindow) Verdict {
	if j.application == nil {
		return v.wants("requests to an application", c.Mode).unknown(withoutApplication)
	}
	return dnsWindow(*j.application, v, DNSWindow(c))
}
