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
			s.only(Require(Losses{Of: scenarios.DNS, Mode: "all", Max: &most}))
		}
	}
	window := func(check Losses, edits ...func(*script)) func(*script) {
		return func(s *script) {
			s.only(Require(check))
			for _, edit := range edits {
				edit(s)
			}
		}
	}
	// The rules choose the pod that ends until 9 s, and the one that stays from then on.
	recorded := func(edits ...func(*script)) func(*script) {
		return func(s *script) {
			s.only(Require(Losses{Of: scenarios.DNS, Mode: "all", Max: new(0)}))
			s.at(1, history.NewPodReady("default/coredns-a", "uid-coredns-a", history.Node(victim), history.IP(ending)))
			s.at(1, history.NewPodReady("default/coredns-z", "uid-coredns-z", history.Node(bystander), history.IP(staying)))
			s.at(5.1, history.NewPodSignalled("default/coredns-a", "", history.Node(victim), history.IP(ending)))
			s.at(10, history.NewPodExited("default/coredns-a", "uid-coredns-a", history.Node(victim), history.IP(ending)))
			s.at(28.9, history.NewFlowsRecorded("", history.With(history.Numbers{history.Resolution: 0.005})))
			s.flow(40000, ending, 1.5, 9)
			s.flow(40000, staying, 9, 0)
			for _, edit := range edits {
				edit(s)
			}
		}
	}
	lose := func(from, to float64) func(*script) {
		return func(s *script) { s.lose(history.Service, history.Fresh, from, to, history.Timeout) }
	}
	least := func(seconds float64) Losses {
		return Losses{Of: scenarios.DNS, Mode: "fresh", MinWindow: strict.Duration(sec(seconds))}
	}
	most := func(seconds float64) Losses {
		return Losses{Of: scenarios.DNS, Mode: "fresh", MaxWindow: strict.Duration(sec(seconds))}
	}
	const dnsLost, dnsWindow = "dns lost (all)", "dns window (fresh)"
	for _, x := range []expectation{
		{name: "no query may be lost", edit: lost(0), check: dnsLost, want: Unknown, got: "up to 12 more might have been: nothing left for 0.200s", noise: true},
		{name: "two moments near one hole", edit: func(s *script) {
			lost(0)(s)
			s.at(5.4, history.NewEndpointGone("", "default/coredns-a", "10.0.0.1"))
		}, check: dnsLost, want: Unknown, got: "up to 12 more might have been", noise: true},
		{name: "more may be lost than the hole may hide", edit: lost(12), check: dnsLost, want: Pass, got: "0 of"},
		{name: "more are lost than may be", edit: func(s *script) { lost(12)(s); lose(5.5, 6)(s) }, check: dnsLost, want: Fail},
		{name: "when nothing happened", edit: func(s *script) { hole(12)(s) }, check: dnsLost, want: Pass},
		{name: "a window could not be too long", edit: window(most(5), hole(5.25)), check: dnsWindow, want: Pass},
		{name: "a window could be too long", edit: window(most(0.5), hole(5.25), lose(5.5, 5.9)), check: dnsWindow, want: Unknown, got: "nothing left for", noise: true},
		{name: "a window is too long after the hole", edit: window(most(0.5), hole(5.25), lose(5.5, 6.5)), check: dnsWindow, want: Fail},
		{name: "two halves of a window, each short enough", edit: window(most(0.5), lose(4.9, 5.8), hole(5.25)), check: dnsWindow, want: Unknown, noise: true},
		{name: "a pod that goes on answering gets SIGTERM", edit: recorded(hole(5.25)), check: dnsLost, want: Pass},
		{name: "a pod answers for the last time", edit: recorded(hole(8.9)), check: dnsLost, want: Unknown, got: "around the last answer of 10.0.0.1", noise: true},
		{name: "a pod goes on answering after the hole", edit: recorded(hole(8.8)), check: dnsLost, want: Unknown, got: "around the last answer of 10.0.0.1", noise: true},
		{name: "a pod goes on answering after the hole, and what connection tracking loses does not count", edit: recorded(hole(8.8), func(s *script) {
			s.only(Require(Losses{Of: scenarios.DNS, Mode: "all", Max: new(0), ExceptConntrack: true}))
		}), check: dnsLost, want: Pass},
		{name: "it answers for the last time in the hole", edit: recorded(hole(8.9), func(s *script) {
			s.only(Require(Losses{Of: scenarios.DNS, Mode: "all", Max: new(0), ExceptConntrack: true}))
		}), check: dnsLost, want: Unknown, noise: true},
		{name: "a pod exits that nothing is sent to", edit: recorded(hole(9.95)), check: dnsLost, want: Pass},
		{name: "a pod exits, and its traffic is not on record", edit: recorded(hole(9.95), func(s *script) { s.flows = nil }), check: dnsLost, want: Unknown, got: "around pod.exited", noise: true},
		{name: "a pod exits that is restarted", edit: recorded(hole(9.95), func(s *script) {
			s.change(history.PodExited, func(e *history.Event) { e.Kind = history.PodRestarted })
			s.drop(kind(history.PodDeleted))
		}), check: dnsLost, want: Unknown, got: "around pod.restarted", noise: true},
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
