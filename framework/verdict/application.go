package verdict

import "github.com/spotdrill/spotdrill/scenarios"

const (
	withoutApplication = "the scenario probes no application"
	applicationFix     = "let the pods go on serving after they are deleted, until every node has stopped sending requests there: a preStop hook that sleeps for some seconds, and a grace period longer than that"
	applicationLook    = "the lane DNS answers, rows of the application: where the window opens, and what its endpoints and pods show just before"
)

var checkApplicationLost = check{
	Kind: Kind{
		ID: "applicationLost", Title: "application lost (%s)",
		Requires: "At most this many requests are lost at the workload's Service.",
		Fix:      applicationFix,
		Look:     Look{Lane: LaneDNS, Text: applicationLook},
	},
	judge: by(applicationLost),
}

func applicationLost(j judge, v Verdict, c scenarios.ApplicationLost) Verdict {
	if j.application == nil {
		return v.wants("requests to an application", c.Mode).unknown(withoutApplication)
	}
	return dnsLost(*j.application, v, scenarios.DNSLost{Mode: c.Mode, Max: c.Max})
}

var checkApplicationWindow = check{
	Kind: Kind{
		ID: "applicationWindow", Title: "application window (%s)",
		Requires: "The longest window of lost requests at the workload's Service is within these bounds.",
		Fix:      applicationFix,
		Look:     Look{Lane: LaneDNS, Text: applicationLook},
	},
	judge: by(applicationWindow),
}

func applicationWindow(j judge, v Verdict, c scenarios.ApplicationWindow) Verdict {
	if j.application == nil {
		return v.wants("requests to an application", c.Mode).unknown(withoutApplication)
	}
	return dnsWindow(*j.application, v, scenarios.DNSWindow(c))
}
