package verdict

const (
	withoutApplication = "the scenario probes no application"
	applicationFix     = "let the pods go on serving after they are deleted, until every node has stopped sending requests there: a preStop hook that sleeps for some seconds, and a grace period longer than that"
	applicationLook    = "the lane DNS answers, rows of the application: where the window opens, and what its endpoints and pods show just before"
)
