package verdict

import (
	"math"
	"slices"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// without takes the queries of a target and mode in a time off the record.
func without(target string, mode history.Mode, from, to float64) func(*script) {
	return func(s *script) {
		before := len(s.queries)
		s.queries = slices.DeleteFunc(s.queries, func(q history.Query) bool {
			return q.Target == target && q.Mode == mode && q.Intended >= sec(from) && q.Intended < sec(to)
		})
		missing := float64(before - len(s.queries))
		s.change(history.ProberEnded, func(e *history.Event) { e.Numbers[history.Asked] -= missing })
	}
}

func number(name history.Number, value float64) func(*script) {
	return func(s *script) { s.change(history.ProberEnded, func(e *history.Event) { e.Numbers[name] = value }) }
}

// distrusted are the ways in which a measurement cannot be believed: each makes
// its own check Unknown and, with it, every check of DNS.
func distrusted() []expectation {
	return []expectation{
		{name: "control lost more than one in a hundred", edit: func(s *script) { s.lose(history.Control, fresh, 12, 12.2, history.Timeout) }, check: "control", got: "3 of 261 lost", noise: true},
		{name: "control never queried", edit: without(history.Control, fresh, 0, 99), check: "control", got: "never queried"},
		{name: "control asked too little", edit: func(s *script) { s.scenario.Probe.Control = 12 }, check: "control", got: "expected", noise: true},
		{name: "control stopped early", edit: without(history.Control, fresh, 25, 99), check: "control", got: "the drill went on", noise: true},

		{name: "prober did not end", edit: func(s *script) { s.drop(kind(history.ProberEnded)) }, check: "prober", got: "reported no result"},
		{name: "prober did not report", edit: func(s *script) {
			s.change(history.ProberEnded, func(e *history.Event) { delete(e.Numbers, history.LateP99) })
		}, check: "prober", got: "late_p99"},
		{name: "prober asked nothing", edit: number(history.Asked, 0), check: "prober", got: "0 queries asked"},
		{name: "queries lost on the way to the record", edit: number(history.Asked, 99999), check: "prober", got: "99999 queries asked"},
		{name: "prober could not send", edit: number(history.UnsentQueries, 40), check: "prober", got: "40 of 1897 queries could not leave", noise: true},
		{name: "prober could not take answers", edit: number(history.Dropped, 1), check: "prober", got: "1 answer came", noise: true},
		{name: "unsent queries on record", edit: func(s *script) {
			for at := 6.5; at < 22; at += 0.5 {
				s.lose(service, fresh, at, at+0.05, history.Unsent)
			}
		}, check: "prober", got: "could not leave", noise: true},
		{name: "prober describes what is no number", edit: number(history.LateP99, math.NaN()), check: "prober", got: "late", noise: true},
		{name: "prober late", edit: number(history.LateP99, 0.2001), check: "prober", got: "late", noise: true},
		{name: "prober late while the host took processors", edit: func(s *script) {
			number(history.LateP99, 0.2001)(s)
			for at := 7.0; at < 9; at++ {
				s.at(at, history.NewProcessorStolen(history.With(history.Numbers{history.Stolen: 0.5, history.Within: 1, history.Cores: 2})))
			}
		}, check: "prober", got: "late; for 2 s, the host of this machine gave 25% of its processors to others (steal)", noise: true},
		{name: "no fixed queries", edit: without(service, fixed, 0, 99), check: "prober", got: "mode fixed"},
		{name: "no fresh queries", edit: without(service, fresh, 0, 99), check: "prober", got: "mode fresh"},
		{name: "a hole in the queries", edit: without(service, fresh, 12, 12.3), check: "prober", got: "no query on record between", noise: true},
		{name: "service asked too little", edit: func(s *script) { s.scenario.Probe.Fixed = 25 }, check: "prober", got: "expected", noise: true},
		{name: "service asked too late", edit: without(service, fixed, 0, 3.5), check: "prober", got: "too late for the baseline", noise: true},
		{name: "service stopped early", edit: without(service, fresh, 27.5, 99), check: "prober", got: "the drill went on", noise: true},

		{name: "lost before the notice", edit: losing(fixed, 3.9, 3.95), check: "baseline", got: "was lost (timeout)", noise: true},
		{name: "no notice", edit: func(s *script) { s.drop(kind(history.NoticePut)) }, check: "baseline", got: "no notice"},
		{name: "a node that was to be taken by notice was taken without", edit: func(s *script) {
			s.drop(kind(history.NoticePut))
			s.at(5, history.NewReclaimed(victim))
		}, check: "baseline", got: "no notice"},
		{name: "notice too early", edit: func(s *script) { s.change(history.NoticePut, func(e *history.Event) { e.At = sec(0.5) }) }, check: "baseline", got: "0.500s after"},
		{name: "too little before the notice", edit: without(service, fresh, 3.2, 3.4), check: "baseline", got: "only 32 fresh", noise: true},
	}
}

func TestDistrust(t *testing.T) {
	for _, x := range distrusted() {
		x.want = Unknown
		x.run(t, drainStory)
	}
}

func TestNoDNSCheckSurvivesDistrust(t *testing.T) {
	for _, x := range distrusted() {
		t.Run(x.name, func(t *testing.T) {
			for _, loses := range []bool{false, true} {
				s := drainStory()
				if loses {
					losing(fresh, 14, 20.5)(s)
				}
				x.edit(s)
				for _, check := range []string{"dns lost (all)", "dns window (fresh)"} {
					if v := named(t, s.judge(), check); v.Outcome != Unknown {
						t.Errorf("%s (loses: %t) is %s: %s", check, loses, v.Outcome, v.Got)
					}
				}
			}
		})
	}
}

func TestTrust(t *testing.T) {
	for _, x := range []expectation{
		{name: "control", check: "control", got: "0 of 261 lost"},
		{name: "prober", check: "prober", got: "0 unsent"},
		{name: "its own echo unsent", edit: func(s *script) {
			s.ask(history.Echo, fixed, 100, 3, 29)
			s.lose(history.Echo, fixed, 3, 29, history.Unsent)
		}, check: "prober", got: "0 unsent"},
		{name: "prober on the edge", edit: number(history.LateP99, 0.05), check: "prober"},
		{name: "prober stopped with the harness", edit: func(s *script) {
			s.at(26, history.NewRunError("x"))
			for _, mode := range []history.Mode{fresh, fixed} {
				without(service, mode, 26, 99)(s)
			}
		}, check: "prober"},
		{name: "a few unsent", edit: func(s *script) { s.lose(service, fresh, 12, 12.01, history.Unsent) }, check: "prober"},
		{name: "baseline", check: "baseline", got: "60 answered"},
		{name: "CoreDNS is disrupted without a notice", edit: func(s *script) {
			s.change(history.NoticePut, func(e *history.Event) { e.Kind = history.DNSDisrupted })
		}, check: "baseline", got: "60 answered"},
		{name: "the node is taken without a notice", edit: func(s *script) {
			s.scenario.Steps = []scenarios.Step{{Reclaim: &scenarios.Reclaim{Node: "victim"}}}
			s.change(history.NoticePut, func(e *history.Event) { e.Kind = history.Reclaimed })
		}, check: "baseline", got: "60 answered"},
		{name: "lost long before the notice", edit: losing(fresh, 2, 2.9), check: "baseline"},
	} {
		x.want = Pass
		x.run(t, drainStory)
	}
}

func TestOtherChecksKeepTheirOutcomeWhenTheControlFails(t *testing.T) {
	s := drainStory()
	s.lose(history.Control, fresh, 12, 12, history.Timeout)
	s.drop(victimCordoned)
	r := s.judge()
	if v := named(t, r, "marked victim"); v.Outcome != Fail || r.Outcome != Fail {
		t.Errorf("marked: %s, drill: %s", v.Outcome, r.Outcome)
	}
	if v := named(t, r, "deleted reclaim"); v.Outcome != Pass {
		t.Errorf("deleted: %s", v.Outcome)
	}
}
