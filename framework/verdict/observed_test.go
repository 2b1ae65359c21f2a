package verdict

import (
	"slices"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// awaitedStory is a drain whose steps end when the node is empty: the instance stays.
// The last step is done at +11.
func awaitedStory() *script {
	s := drainStory()
	s.scenario.Probe = nil
	s.scenario.Steps = s.scenario.Steps[:1]
	s.drop(kind(history.Reclaimed))
	s.change(history.RunPhase, func(e *history.Event) {
		if history.Settle.BegunBy(*e) {
			e.At = sec(11)
		}
	})
	return s
}

// endsAt moves the end of the recording.
func endsAt(seconds float64) func(*script) {
	return func(s *script) {
		s.drop(func(e history.Event) bool { return e.At >= sec(29) })
		s.restore(seconds)
	}
}

// That something did not happen is known only after the time in which it would have.
func TestAbsenceNeedsTimeToShow(t *testing.T) {
	again := func(s *script) {
		s.at(17, history.NewNodeUncordoned(victim))
		s.at(17, history.NewNodeCordoned(victim))
	}
	const once, alone, daemons = "drained once victim", "untouched bystander", "daemon pods left on victim"
	for _, x := range []expectation{
		{name: "once", check: once, edit: endsAt(21.1), want: Pass},
		{name: "once, and recorded for 3 s after the last step", check: once, edit: endsAt(14), want: Unknown, got: "recorded up to +14.000s, and +21.000s is needed to show it"},
		{name: "a second drain 6 s after the last step", check: once, edit: func(s *script) { endsAt(21.1)(s); again(s) }, want: Fail, got: "2 times"},
		{name: "once, and the instance is gone soon after", check: once, edit: func(s *script) {
			s.at(13, history.NewReclaimed(victim))
			endsAt(14)(s)
		}, want: Pass},
		{name: "a bystander, 5 s after the notice", check: alone, edit: func(s *script) {
			s.change(history.RunPhase, func(e *history.Event) {
				if history.Settle.BegunBy(*e) {
					e.At = sec(6)
				}
			})
			endsAt(9.1)(s)
		}, want: Pass},
		{name: "a bystander, 4 s after the notice", check: alone, edit: endsAt(8), want: Unknown, got: "+9.000s is needed"},
		{name: "daemon pods, which may be evicted after the others", check: daemons, edit: endsAt(14), want: Unknown, got: "+16.000s is needed"},
	} {
		x.run(t, func() *script {
			s := awaitedStory()
			s.scenario.Checks = []scenarios.Check{
				Require(DrainedOnce{Node: "victim"}), Require(Untouched{Node: "bystander"}), Require(NoEviction{Node: "victim", DaemonPods: true}),
			}
			return s
		})
	}
}

// A recording that ends when the scenario reports that a check is decided shows the failure;
// one that ends before does not.
func TestARecordingOfTheNeededLengthShowsAFailure(t *testing.T) {
	for name, c := range map[string]struct {
		check scenarios.Check
		fails func(*script)
		until float64
		short Outcome // of a recording up to +32
	}{
		"a message that is never deleted": {
			Require(Deleted{Of: "reclaim", Within: strict.Duration(sec(50))}),
			func(s *script) { s.drop(kind(history.SQSDeleted)) }, 54, Unknown,
		},
		"replacements that never come": {
			Require(Replaced{NodeNotice{Node: "victim", Notice: "reclaim"}}),
			func(s *script) {
				until := sec(124)
				s.change(history.NoticePut, func(e *history.Event) { e.Until = &until })
				s.drop(func(e history.Event) bool { return e.Pod == "default/coredns-b" })
			}, 124, Unknown,
		},
		"a node that is never marked": {
			Require(Marked{Node: "victim", Notice: "reclaim", Within: strict.Duration(sec(30))}),
			func(s *script) { s.drop(kind(history.NodeCordoned)) }, 34, Unknown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			play := func(seconds float64) (*script, Outcome) {
				s := awaitedStory()
				s.only(c.check)
				c.fails(s)
				endsAt(seconds)(s)
				return s, s.judge().Verdicts[0].Outcome
			}
			s, got := play(c.until + 0.1)
			if got != Fail {
				t.Errorf("recorded until +%gs: %s, want fail", c.until, got)
			}
			if _, got := play(32); got != c.short {
				t.Errorf("recorded until +32s: %s, want %s", got, c.short)
			}
			needs := c.check.DecidedBy(s.scenario.Times(s.history().Events))
			if needs.Until != sec(c.until) || !needs.Early {
				t.Errorf("decided by %s, want +%gs", needs.Until, c.until)
			}
			if Decided(s.scenario, recordedUpTo(s.history(), needs.Until-time.Second), s.scenario.Checks) {
				t.Error("decided a second before")
			}
		})
	}
}

// recordedUpTo is the history as it was recorded up to then.
func recordedUpTo(h history.History, until time.Duration) history.History {
	h.Events = slices.DeleteFunc(h.Events, func(e history.Event) bool { return e.At > until })
	h.Complete = false
	return h
}
