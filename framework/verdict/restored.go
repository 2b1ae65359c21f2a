package verdict

import (
	"github.com/spotdrill/spotdrill/framework/history"
)

var checkRestored = everywhere(Kind{
	ID: "restored", Title: "restored", ofRecord: true, observes: true,
	Requires: "Every node is Ready, schedulable and untainted again after the drill.",
	Fix:      "the cluster could not be put back: spotdrill down removes it, and the next run makes a new one",
	Look:     Look{Text: "the harness's last events, and state/ of the drill: which node did not come back"},
}, restored)

// restored checks whether the cluster was put back as it was found. If not, the
// harness failed, not the handler, but the next drill starts on a broken cluster.
func restored(j judge, v Verdict) Verdict {
	v = v.requires("every node ready, schedulable and untainted again")
	for _, e := range j.History.Events {
		if e.Kind == history.Restored {
			got := "restored"
			if e.Note != "" {
				got += ": " + e.Note
			}
			return v.pass(got, e)
		}
	}
	return v.unknown("the history does not report that the cluster was restored")
}
