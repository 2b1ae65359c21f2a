package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Nothing left for 150 ms as an endpoint changed. That matters to what it could change.
func TestWhatAHoleHides(t *testing.T) {
	hole := func(from float64) func(*script) {
		return func(s *script) {
			s.lose(history.Service, history.Fresh, from, from+0.15, history.Unsent)
			s.lose(history.Service, history.Fixed, from, from+0.15, history.Unsent)
		}
	}
	lost := func(most int) func(*script) {
		return func(s *script) {
			hole(5.25)(s)
			s.only(scenarios.Check{DNSLost: &scenarios.DNSLost{Mode: "all", Max: most}})
		}
	}
	window := func(check scenarios.DNSWindow, edits ...func(*script)) func(*script) {
		return func(s *script) {
			s.only(scenarios.Check{DNSWindow: &check})
			for _, edit := range edits {
				edit(s)
			}
		}
	}
	lose := func(from, to float64) func(*script) {
		return func(s *script) { s.lose(history.Service, history.Fresh, from, to, history.Timeout) }
	}
	least := func(seconds float64) scenarios.DNSWindow {
		return scenarios.DNSWindow{Mode: "fresh", Min: strict.Duration(sec(seconds))}
	}
	most := func(seconds float64) scenarios.DNSWindow {
		return scenarios.DNSWindow{Mode: "fresh", Max: strict.Duration(sec(seconds))}
	}
	const dnsLost, dnsWindow = "dns lost (all)", "dns window (fresh)"
	for _, x := range []expectation{
		{name: "no query may be lost", edit: lost(0), check: dnsLost, want: Unknown, got: "up to 12 more might have been: nothing left for 0.200s", noise: true},
		{name: "two moments near one hole", edit: func(s *script) {
			lost(0)(s)
			s.at(5.4, history.Event{Kind: history.EndpointGone, Pod: "default/coredns-a", IP: "10.0.0.1"})
		}, check: dnsLost, want: Unknown, got: "up to 12 more might have been", noise: true},
		{name: "more may be lost than the hole may hide", edit: lost(12), check: dnsLost, want: Pass, got: "0 of"},
		{name: "more are lost than may be", edit: func(s *script) { lost(12)(s); lose(5.5, 6)(s) }, check: dnsLost, want: Fail},
		{name: "when nothing happened", edit: func(s *script) { hole(12)(s) }, check: dnsLost, want: Pass},
		{name: "a window could not be too long", edit: window(most(5), hole(5.25)), check: dnsWindow, want: Pass},
		{name: "a window could be too long", edit: window(most(0.5), hole(5.25), lose(5.5, 5.9)), check: dnsWindow, want: Unknown, got: "nothing left for", noise: true},
		{name: "a window is too long after the hole", edit: window(most(0.5), hole(5.25), lose(5.5, 6.5)), check: dnsWindow, want: Fail},
		{name: "two halves of a window, each short enough", edit: window(most(0.5), lose(4.9, 5.8), hole(5.25)), check: dnsWindow, want: Unknown, noise: true},
	} {
		x.run(t, drainStory)
	}
	for _, x := range []expectation{
		{name: "an outage is long enough without the hole", edit: window(least(20), hole(53.9)), check: dnsWindow, want: Pass},
		{name: "an outage is long enough with it only", edit: window(least(44), hole(53.9)), check: dnsWindow, want: Unknown, got: "nothing left for", noise: true},
		{name: "an outage is too short even with it", edit: window(least(46), hole(53.9)), check: dnsWindow, want: Fail},
	} {
		x.run(t, incidentStory)
	}
}
