package verdict

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
)

var checkFaults = ifApplicable(Kind{
	ID: "faultsInjected", Title: "faults injected", ofRecord: true,
	Requires: "Every fault of the scenario began and hit a call.",
	Fix:      "the handler made no call that the fault could hit while it lasted: check that it polls the queue all the time, and finds the API server by KUBERNETES_SERVICE_HOST",
	Look:     Look{Lane: LaneHandler, Text: "the lane Handler: whether it polled the queue while the fault lasted; then the fault events of history.jsonl"},
}, faults)

// faults checks whether every fault of the scenario hit a call: one that hit
// nothing proves nothing.
func faults(j judge, v Verdict) (Verdict, bool) {
	v = v.requires("every fault of the scenario begun, and a call hit by it")
	faults := j.Scenario.Faults()
	if len(faults) == 0 {
		return v, false
	}
	var evidence []history.Event
	hits := 0
	for _, f := range faults {
		name := f.Name
		begun, ok := j.First(func(e history.Event) bool { return e.Kind == history.FaultBegun && e.Step() == name })
		if !ok {
			return v.unknown(fmt.Sprintf("fault %q never began", name)), true
		}
		hit := j.All(func(e history.Event) bool { return e.Kind == history.FaultHit && e.Step() == name })
		if len(hit) == 0 {
			return v.unknown(fmt.Sprintf("fault %q hit no call", name), begun), true
		}
		hits += len(hit)
		evidence = append(evidence, begun, hit[0])
	}
	v.Numbers = map[string]float64{"hits": float64(hits)}
	return v.pass(history.Count(hits, "hit"), capped(evidence)...), true
}
