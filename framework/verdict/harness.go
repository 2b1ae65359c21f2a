package verdict

import (
	"github.com/spotdrill/spotdrill/framework/history"
)

var checkHarness = everywhere(Kind{
	ID: IDOfHarness, Title: "harness", ofRecord: true, observes: true,
	Requires: "The harness reported no error of its own.",
	Fix:      "the error shows what broke: the machine, the cluster, how the handler is installed, or an interruption; spotdrill doctor checks what this machine lacks",
	Look:     Look{Text: "what the harness itself reported: the note, the console's output and the files of the drill"},
}, harness)

// harness checks whether the run itself broke.
func harness(j judge, v Verdict) Verdict {
	v = v.requires("no error of the harness")
	for _, e := range j.History.Events {
		if e.Kind == history.RunError {
			return v.unknown(e.Note, e)
		}
	}
	return v.pass("none")
}
