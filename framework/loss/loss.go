// Package loss finds out why queries were lost: a pure pipeline from a story and a target to
// an attribution. Each stage is a value made only of those before it, and is never changed
// after it was returned:
//
//	measurement   what became of the queries to the target
//	flows         by which connection tracking entry each query went
//	backends      what is known of the pods that the entries lead to
//	starvation    when pods had no processor, and what that explains
//	causes        the one cause of each lost query
//	noise         which losses may be those of the machine that measures
package loss

import (
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// Attribution is why the queries to a target were lost, and how far that is known.
type Attribution struct {
	// Losses are the lost queries by cause and pod: most first.
	Losses []Loss

	target   Target
	measured Measurement
	inserts  inserts
	starved  starved
	causes   map[history.Query]finding
	lags     lags // when the control was lost or late, and not because its own pod had no processor
	holes    []Hole
}

// Attribute finds the cause of each lost query of a measurement. Without one, there is none.
func Attribute(st *story.Story, t Target, measured *Measurement) *Attribution {
	if measured == nil {
		return &Attribution{target: t}
	}
	m := *measured
	flows := newFlows(st, t)
	inserts := newInserts(st, t, flows)
	backends := newBackends(st, t, flows)
	starved := newStarved(st, t, backends)
	lags := newLags(t, m, controlLag, starved.explains)
	causes := newCauses(m, evidence{t, inserts, starved, lags, newEndpoints(st, t), newCuts(st, t)})
	return &Attribution{
		Losses: lossesOf(m, backends, causes),
		target: t, measured: m, inserts: inserts, starved: starved, causes: causes, lags: lags,
		holes: newHoles(st, t, newMoments(st, t, backends)),
	}
}

// Cause is what a query was lost to; empty if it was not lost.
func (a *Attribution) Cause(q history.Query) Cause { return a.causes[q].cause }

// Starved reports whether any pod had no processor for a while.
func (a *Attribution) Starved() bool { return len(a.starved.byPod) > 0 }

// Tolerances are the bounds by which causes are found, by name.
func Tolerances() map[string]time.Duration {
	return map[string]time.Duration{
		"control_lag": controlLag, "shown_lag": shownLag, "control_lag_reach": lagReach, "late_query": lateQuery,
		"moment_hole": momentHole, "moment_reach": momentReach,
		"loss_under_way": underWay, "loss_rules_lag": rulesLag, "loss_recorder_stall": recorderStall,
		"loss_refusal_each": refusalEach, "loss_restart_before": restartBefore, "loss_restart_after": restartAfter,
		"starved_from": starvedFrom, "starved_reach": starvedReach, "starved_gap": starvedGap,
	}
}
