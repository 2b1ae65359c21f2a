package verdict

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

const (
	service = history.Service
	fresh   = history.Fresh
	fixed   = history.Fixed
)

// losing makes a stream of the service lose every query of a period.
func losing(mode history.Mode, from, to float64) func(*script) {
	return func(s *script) { s.lose(service, mode, from, to, history.Timeout) }
}

func withLost(mode string, most int, edit func(*script)) func(*script) {
	return func(s *script) {
		s.only(Require(Losses{Of: scenarios.DNS, Mode: mode, Max: &most}))
		edit(s)
	}
}

// echoing has the prober's own responder asked as well, and answer late in a time.
func echoing(from, to, by float64) func(*script) {
	return func(s *script) {
		s.ask(history.Echo, fixed, 100, 3, 29)
		for i := range s.queries {
			if q := &s.queries[i]; q.Target == history.Echo && q.Intended >= sec(from) && q.Intended <= sec(to) {
				q.Done = q.Intended + sec(by)
			}
		}
	}
}

// lagging has the control answer late in a time.
func lagging(from, to, by float64) func(*script) {
	return func(s *script) {
		for i := range s.queries {
			if q := &s.queries[i]; q.Target == history.Control && q.Intended >= sec(from) && q.Intended <= sec(to) {
				q.Done = q.Intended + sec(by)
			}
		}
	}
}

// delayed is CoreDNS that was set to answer so much later.
func delayed(by float64) func(*script) {
	return func(s *script) { s.scenario.CoreDNS.Delay = strict.Duration(sec(by)) }
}

func withWindow(mode string, least, most float64, edit func(*script)) func(*script) {
	return func(s *script) {
		s.only(Require(Losses{Of: scenarios.DNS, Mode: mode, MinWindow: strict.Duration(sec(least)), MaxWindow: strict.Duration(sec(most))}))
		edit(s)
	}
}

func TestDNSLost(t *testing.T) {
	for _, x := range []expectation{
		{name: "none lost", edit: withLost("fresh", 0, losing(fixed, 9, 9.1)), check: "dns lost (fresh)", want: Pass, got: "0 of 1"},
		{name: "one lost", edit: withLost("fresh", 0, losing(fresh, 9, 9)), check: "dns lost (fresh)", want: Fail, got: "1 of 1"},
		{name: "as many lost as allowed", edit: withLost("fresh", 1, losing(fresh, 9, 9)), check: "dns lost (fresh)", want: Pass},
		{name: "lost while the control lagged", edit: withLost("fresh", 0, func(s *script) { losing(fresh, 9, 9)(s); lagging(9.1, 9.1, 0.05)(s) }), check: "dns lost (fresh)", want: Unknown, noise: true, got: "only 0 of them surely by the cluster"},
		{name: "lost while the prober's own echo lagged", edit: withLost("fresh", 0, func(s *script) { losing(fresh, 9, 9)(s); echoing(9.1, 9.1, 0.05)(s) }), check: "dns lost (fresh)", want: Unknown, noise: true},
		{name: "lost while its own echo was prompt", edit: withLost("fresh", 0, func(s *script) { losing(fresh, 9, 9)(s); echoing(0, 99, 0.02)(s) }), check: "dns lost (fresh)", want: Fail, got: "1 of 1"},
		{name: "lost while the control was lost", edit: withLost("fresh", 0, func(s *script) { losing(fresh, 9, 9)(s); s.lose(history.Control, fresh, 9, 9.1, history.Timeout) }), check: "dns lost (fresh)", want: Unknown, noise: true},
		{name: "lost long after the control lagged", edit: withLost("fresh", 0, func(s *script) { losing(fresh, 9, 9)(s); lagging(8.5, 8.6, 0.05)(s) }), check: "dns lost (fresh)", want: Fail},
		{name: "lost while the control was prompt", edit: withLost("fresh", 0, func(s *script) { losing(fresh, 9, 9)(s); lagging(8.9, 9.1, 0.02)(s) }), check: "dns lost (fresh)", want: Fail},
		{name: "lost while the control took as long as it was set to", edit: withLost("fresh", 0, func(s *script) { delayed(0.1)(s); losing(fresh, 9, 9)(s); lagging(8.9, 9.1, 0.12)(s) }), check: "dns lost (fresh)", want: Fail},
		{name: "lost while the control took longer than it was set to", edit: withLost("fresh", 0, func(s *script) { delayed(0.1)(s); losing(fresh, 9, 9)(s); lagging(8.9, 9.1, 0.13)(s) }), check: "dns lost (fresh)", want: Unknown, noise: true},
		{name: "an outage that outlasts the lag", edit: withLost("fresh", 0, func(s *script) { losing(fresh, 9, 12)(s); lagging(9, 9.1, 0.05)(s) }), check: "dns lost (fresh)", want: Fail},
		{name: "lost on fixed ports", edit: withLost("fixed", 0, losing(fixed, 9, 9.1)), check: "dns lost (fixed)", want: Fail, got: "3 of 522"},
		{name: "all counts both", edit: withLost("all", 1, func(s *script) { losing(fresh, 9, 9)(s); losing(fixed, 9, 9)(s) }), check: "dns lost (all)", want: Fail, got: "2 of"},
		{name: "SERVFAIL is lost", edit: withLost("fresh", 0, func(s *script) { s.lose(service, fresh, 9, 9, history.ServFail) }), check: "dns lost (fresh)", want: Fail},
		{name: "so is an outcome that is none", edit: withLost("fresh", 0, func(s *script) { s.lose(service, fresh, 9, 9, "") }), check: "dns lost (fresh)", want: Fail},
		{name: "lost while putting back", edit: withLost("fresh", 0, func(s *script) {
			s.ask(service, fresh, 100, 29.3, 31)
			s.lose(service, fresh, 29.2, 31, history.Timeout)
		}), check: "dns lost (fresh)", want: Pass},
		{name: "lost long before the notice", edit: withLost("fresh", 0, losing(fresh, 2, 2.5)), check: "dns lost (fresh)", want: Pass},
		{name: "no probe", edit: withLost("fresh", 0, func(s *script) { s.scenario.Probe = nil }), check: "dns lost (fresh)", want: Unknown, got: "no probe"},
		{name: "no bound", edit: withWindow("fresh", 0, 0, func(*script) {}), check: "dns lost (fresh)", want: Unknown, got: "no bound"},
		{name: "unknown mode", edit: withLost("sticky", 0, func(*script) {}), check: "dns lost (sticky)", want: Unknown},
	} {
		x.run(t, drainStory)
	}
}

// Each transport is judged, whatever the other one shows.
func TestDNSOverBothTransports(t *testing.T) {
	both := func(edit func(*script)) func(*script) {
		return func(s *script) {
			s.scenario.Probe.Transport = scenarios.Both
			s.ask(service, history.Connect, 40, 2, 29)
			s.ask(service, history.Kept, 20, 2, 29)
			edit(s)
		}
	}
	none := func(*script) {}
	for _, x := range []expectation{
		{name: "none lost", edit: both(withLost("all", 0, none)), check: "dns lost (all)", want: Pass, got: "0 of 3"},
		{name: "one lost over TCP", edit: both(withLost("fresh", 0, losing(history.Connect, 9, 9))), check: "dns lost (fresh)", want: Fail, got: "tcp: 0.025s from"},
		{name: "lost over kept connections", edit: both(withLost("fixed", 0, losing(history.Kept, 9, 9.1))), check: "dns lost (fixed)", want: Fail, got: "tcp-kept: "},
		{name: "fresh ports count no kept connections", edit: both(withLost("fresh", 0, losing(history.Kept, 9, 9.1))), check: "dns lost (fresh)", want: Pass},
		{name: "a window of TCP while UDP is answered", edit: both(withWindow("all", 0, 1, losing(history.Connect, 9, 12))), check: "dns window (all)", want: Fail, got: "fresh: no window; fixed: no window; tcp: 3.025s from +9.000s"},
		{name: "a window of UDP while TCP is answered", edit: both(withWindow("all", 0, 1, losing(fresh, 9, 12))), check: "dns window (all)", want: Fail, got: "fresh: 3.025s from"},
		{name: "no query over TCP is on record", edit: both(withLost("all", 0, func(s *script) {
			s.queries = slices.DeleteFunc(s.queries, func(q history.Query) bool { return q.Mode == history.Connect })
		})), check: "dns lost (all)", want: Unknown, got: "no queries in mode tcp"},
		{name: "TCP was lost before the notice", edit: both(withLost("all", 0, losing(history.Connect, 3.5, 3.5))), check: "dns lost (all)", want: Unknown, noise: true, got: "a tcp query of"},
	} {
		x.run(t, drainStory)
	}
}

func TestDNSWindow(t *testing.T) {
	none := func(*script) {}
	for _, x := range []expectation{
		{name: "none, and none wanted", edit: withWindow("fresh", 0, 5, none), want: Pass, got: "no window"},
		{name: "none, but one wanted", edit: withWindow("fresh", 1, 0, none), want: Fail, got: "no window"},
		{name: "as long as wanted", edit: withWindow("fresh", 1, 0, losing(fresh, 9, 9.99)), want: Pass, got: "1.000s from +9.000s (40 of 41 lost)"},
		{name: "shorter than wanted", edit: withWindow("fresh", 1, 0, losing(fresh, 9, 9.9)), want: Fail},
		{name: "as long as allowed", edit: withWindow("fresh", 0, 1, losing(fresh, 9, 9.99)), want: Pass},
		{name: "longer than allowed", edit: withWindow("fresh", 0, 1, losing(fresh, 9, 10.1)), want: Fail},
		{name: "within both", edit: withWindow("fresh", 1, 3, losing(fresh, 9, 11)), want: Pass},
		{name: "long enough without the moment in which the control lagged", edit: withWindow("fresh", 2, 0, func(s *script) { losing(fresh, 9, 11.6)(s); lagging(10, 10.05, 1.1)(s) }), want: Pass},
		{name: "long enough only with it", edit: withWindow("fresh", 2.2, 0, func(s *script) { losing(fresh, 9, 11.6)(s); lagging(10, 10.05, 1.1)(s) }), want: Unknown, noise: true},
		{name: "the control answered slowly all the while", edit: withWindow("fresh", 1, 0, func(s *script) { losing(fresh, 9, 12)(s); lagging(9, 12, 0.3)(s) }), want: Pass},
		{name: "the control lagged all the while", edit: withWindow("fresh", 1, 0, func(s *script) { losing(fresh, 9, 12)(s); lagging(9, 12, 1.1)(s) }), want: Unknown, noise: true},
		{name: "two short ones are not a long one", edit: withWindow("fresh", 1, 0, func(s *script) { losing(fresh, 9, 9.5)(s); losing(fresh, 15, 15.5)(s) }), want: Fail, got: "the longest of 2"},
		{name: "still open at the end, too short so far", edit: withWindow("fresh", 3, 0, losing(fresh, 28, 30)), want: Unknown, got: "still open"},
		{name: "still open at the end, long enough", edit: withWindow("fresh", 1, 0, losing(fresh, 27, 30)), want: Pass, got: "still open"},
		{name: "still open at the end, allowed so far", edit: withWindow("fresh", 0, 5, losing(fresh, 28, 30)), want: Unknown, got: "still open"},
		{name: "still open at the end, too long", edit: withWindow("fresh", 0, 1, losing(fresh, 27, 30)), want: Fail},
		{name: "on the other ports", edit: withWindow("fresh", 1, 0, losing(fixed, 9, 12)), want: Fail},
	} {
		x.check = "dns window (fresh)"
		x.run(t, drainStory)
	}
}

func TestDNSWindowOfAllModesIsTheLongest(t *testing.T) {
	s := drainStory()
	withWindow("all", 0, 1, func(s *script) { losing(fresh, 9, 9.1)(s); losing(fixed, 9, 12)(s) })(s)
	v := named(t, s.judge(), "dns window (all)")
	if v.Outcome != Fail || !strings.Contains(v.Got, "fresh: 0.1") || !strings.Contains(v.Got, "fixed: 3.0") {
		t.Errorf("%s: %s", v.Outcome, v.Got)
	}
}

func TestDNSNumbersAreOfBothModes(t *testing.T) {
	s := drainStory()
	withLost("fresh", 0, func(s *script) { losing(fresh, 9, 9.09)(s); losing(fixed, 9, 9)(s); losing(fixed, 11, 11)(s) })(s)
	for i, q := range s.queries {
		if q.Mode == fixed && q.Intended >= sec(20) {
			s.queries[i].Done = q.Intended + 70*time.Millisecond
		}
	}
	v := named(t, s.judge(), "dns lost (fresh)")
	for name, want := range map[string]float64{
		"asked_fresh": 1044, "lost_fresh": 4, "windows_fresh": 1, "window_fresh_max_ms": 100, "latency_fresh_p50_ms": 2, "latency_fresh_p99_ms": 2,
		"asked_fixed": 522, "lost_fixed": 2, "windows_fixed": 2, "window_fixed_max_ms": 50, "latency_fixed_p50_ms": 2, "latency_fixed_p99_ms": 70,
		"asked_control": 261, "lost_control": 0,
	} {
		if v.Numbers[name] != want {
			t.Errorf("%s is %g, want %g", name, v.Numbers[name], want)
		}
	}
}

func TestLeftOutLossesAreOfTheModeThatCounts(t *testing.T) {
	for mode, want := range map[string]float64{"all": 1, "fixed": 1, "fresh": 0} {
		s := drainStory()
		s.only(Require(Losses{Of: scenarios.DNS, Mode: mode, Max: new(0), ExceptConntrack: true}))
		losing(fixed, 9, 9)(s)
		s.flows = append(s.flows, history.Flow{Port: 40000, Backend: staying, From: sec(3), To: sec(9.001), Removed: true, Replied: true})
		v := named(t, s.judge(), fmt.Sprintf("dns lost (%s)", mode))
		if left, ok := v.Numbers["lost_conntrack"]; !ok || left != want || v.Outcome != Pass {
			t.Errorf("%s: %s, %v left out, want %v: %s", mode, v.Outcome, left, want, v.Got)
		}
	}
}

func TestDNSFailureCitesWhatHappenedToTheEndpoints(t *testing.T) {
	s := drainStory()
	losing(fresh, 5.2, 6)(s)
	h := s.history()
	v := named(t, Judge(s.scenario, h), "dns lost (all)")
	var kinds []history.Kind
	for _, seq := range v.Evidence {
		kinds = append(kinds, h.Events[seq-1].Kind)
	}
	if !slices.Equal(kinds, []history.Kind{history.PodTerminating, history.EndpointTerminating}) {
		t.Errorf("evidence %v", kinds)
	}
}

func TestEndpointStays(t *testing.T) {
	gone := func(seconds float64) func(*script) {
		return func(s *script) {
			s.change(history.EndpointNotReady, func(e *history.Event) { e.At = sec(seconds) })
		}
	}
	for _, x := range []expectation{
		{name: "left", want: Pass, got: "endpoint.notready after 44.100s"},
		{name: "left for as long as wanted", edit: gone(30), want: Pass},
		{name: "left for less", edit: gone(29.9), want: Fail, got: "19.900s"},
		{name: "gone before", edit: gone(9), want: Fail, got: "not ready any more"},
		{name: "left to the end", edit: func(s *script) { s.drop(kind(history.EndpointNotReady)) }, want: Pass},
		{name: "recording ends too soon", edit: func(s *script) {
			s.drop(kind(history.EndpointNotReady))
			s.at(20, history.NewRunError("x"))
		}, want: Unknown, got: "recording ends there"},
		{name: "no endpoint on the node", edit: func(s *script) {
			s.change(history.EndpointReady, func(e *history.Event) { e.Pod = "default/other" })
		}, want: Unknown},
		{name: "never taken", edit: func(s *script) { s.drop(kind(history.Reclaimed)) }, want: Unknown},
		{name: "no role", edit: func(s *script) { s.drop(kind(history.NodeRole)) }, want: Unknown},
	} {
		x.check = "endpoint of victim stays"
		x.run(t, incidentStory)
	}
}
