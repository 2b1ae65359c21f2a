package verdict

import (
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// NotRestarted has the parameters of checkNotRestarted.
type NotRestarted struct{}

// Validate checks the parameters.
func (NotRestarted) Validate(*scenarios.Scope) {}

// DecidedBy is how long it needs the recording.
func (NotRestarted) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Absent(t.Reaction())
}

var checkNotRestarted = by(Kind{
	ID: "notRestarted", Title: "handler not restarted",
	Requires: "The handler's pods stay from the first step to the end of the drill, and none of their containers ends or starts again.",
	Fix:      "look in handler.log for the panic or the failed probe; what cannot be parsed must be an error that is handled, not an exit",
	Look:     Look{Text: "handler.log, its last lines before the restart, and state/ next to it"},
}, notRestarted)

func notRestarted(j judge, v Verdict, _ NotRestarted) Verdict {
	handler := j.History.Meta.Handler
	v = v.requires("the handler's pods there throughout, no container ended or started again")
	if handler.Workload() == "" {
		return v.unknown("the history does not show where the handler runs")
	}
	ends := []history.Kind{history.PodRestarted, history.PodExited, history.PodTerminating, history.PodDeleted, history.PodCreated}
	var bad []history.Event
	pods := 0
	for _, p := range j.Pods {
		if !p.OfHandler(handler) {
			continue
		}
		pods++
		for _, e := range p.Events {
			if e.At >= j.Begun && slices.Contains(ends, e.Kind) {
				bad = append(bad, e)
			}
		}
	}
	switch {
	case len(bad) > 0:
		got := fmt.Sprintf("%s: %s", bad[0].Pod, describe(bad))
		if code, ok := bad[0].Numbers[history.ExitCode]; ok {
			got += fmt.Sprintf(" (%s, exit code %.0f)", bad[0].KubernetesReason(), code)
		}
		return v.fail(got, capped(bad)...)
	case pods == 0:
		return v.unknown("no pod of " + handler.Workload() + " was seen")
	case j.Unseen(j.End) != "":
		return v.unknown("not restarted: " + j.Unseen(j.End))
	}
	return v.pass(fmt.Sprintf("%s, none restarted", history.Count(pods, "pod")))
}
