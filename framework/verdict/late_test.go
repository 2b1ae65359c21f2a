package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// A watch delivers a little late: what it shows just after a limit may have been in time.
func TestChangesOfPodsSeenLate(t *testing.T) {
	gone := func(seconds float64) func(*script) {
		return func(s *script) { s.change(history.PodDeleted, func(e *history.Event) { e.At = sec(seconds) }) }
	}
	another := func(s *script) { // which stays
		s.pod(1, history.PodPresent, "web", victim, "ReplicaSet/web")
	}
	for _, x := range []expectation{
		{name: "gone in time", edit: gone(24), want: Pass},
		{name: "seen gone just after the deadline", edit: gone(24.3), want: Unknown, got: "may have been seen late"},
		{name: "seen gone long after the deadline", edit: gone(24.6), want: Fail, got: "1 of 1 pods still on"},
		{name: "seen gone just after the deadline, and another stays", edit: func(s *script) { gone(24.3)(s); another(s) }, want: Fail, got: "2 of 2 pods still on"},
		{name: "received late, and drained in time since", edit: func(s *script) {
			s.only(scenarios.Check{Drained: &scenarios.Drained{Node: "victim", Notice: "reclaim", Within: strict.Duration(sec(3))}})
			s.change(history.SQSReceived, func(e *history.Event) { e.At = sec(8) })
			polled(s, 3, 8, 1)
		}, want: Pass},
		{name: "received at once, and not drained in time since", edit: func(s *script) {
			s.only(scenarios.Check{Drained: &scenarios.Drained{Node: "victim", Notice: "reclaim", Within: strict.Duration(sec(3))}})
			polled(s, 3, 4.2, 1)
		}, want: Fail},
	} {
		x.check = "drained victim"
		x.run(t, drainStory)
	}
}
