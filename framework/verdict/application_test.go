package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// The addresses of the application's pods.
const (
	appEnding  = "10.0.1.1"
	appStaying = "10.0.1.2"
)

// applicationStory is a drain in which an application is requested as well as DNS: every request
// is answered.
func applicationStory() *script {
	s := drainStory()
	s.drop(kind(history.ProberStarted))
	s.drop(kind(history.ProberEnded))
	s.queries = nil
	s.scenario.Probe.Application = &scenarios.ApplicationProbe{Transport: scenarios.OverHTTP, Fresh: 40, Fixed: 20, Control: 10}
	s.scenario.Checks = append(s.scenario.Checks, Require(Losses{Of: scenarios.Application, Mode: "all", Max: new(0)}))
	s.ask(history.Application, history.HTTP, 40, 2, 29.1)
	s.ask(history.Application, history.HTTPKept, 20, 2, 29.1)
	s.ask(history.ApplicationControl, history.HTTP, 10, 2, 29.1)
	s.probe(2, 29.1)
	s.pod(1, history.PodPresent, "app-a", victim, "ReplicaSet/app")
	s.pod(1, history.PodPresent, "app-z", bystander, "ReplicaSet/app")
	for pod, ip := range map[string]string{"app-a": appEnding, "app-z": appStaying} {
		s.at(1, history.NewPodReady("default/"+pod, "uid-"+pod, history.IP(ip)))
		s.at(1, history.NewEndpointReady(scenarios.App, "default/"+pod, ip))
	}
	s.pod(5, history.PodEvicted, "app-a", victim, "ReplicaSet/app")
	s.pod(5, history.PodTerminating, "app-a", victim, "ReplicaSet/app")
	s.at(5.1, history.NewEndpointTerminating(scenarios.App, "default/app-a", appEnding, false))
	s.pod(6, history.PodDeleted, "app-a", victim, "ReplicaSet/app")
	s.at(6, history.NewEndpointGone(scenarios.App, "default/app-a", appEnding))
	return s
}

func TestApplication(t *testing.T) {
	refused := func(mode history.Mode, from, to float64) func(*script) {
		return func(s *script) { s.lose(history.Application, mode, from, to, history.ICMP) }
	}
	window := func(least, most float64, edit func(*script)) func(*script) {
		return func(s *script) {
			s.only(Require(Losses{Of: scenarios.Application, Mode: "fresh", MinWindow: strict.Duration(sec(least)), MaxWindow: strict.Duration(sec(most))}))
			edit(s)
		}
	}
	for _, x := range []expectation{
		{name: "none lost", want: Pass, got: "0 of 1566 lost"},
		{name: "one refused", edit: refused(history.HTTP, 9, 9), want: Fail, got: "1 of 1566 lost"},
		{name: "one refused over a kept connection", edit: refused(history.HTTPKept, 9, 9), want: Fail, got: "1 of 1566 lost"},
		{name: "one answered by an error", edit: func(s *script) { s.lose(history.Application, history.HTTP, 9, 9, history.OtherCode) }, want: Fail},
		{name: "DNS lost meanwhile", edit: losing(fresh, 9, 12), want: Pass},
		{name: "refused while its control was", edit: func(s *script) {
			refused(history.HTTP, 9, 9)(s)
			s.lose(history.ApplicationControl, history.HTTP, 9, 9.1, history.Timeout)
		}, want: Unknown, noise: true},
		{name: "refused while the control of DNS was late", edit: func(s *script) { refused(history.HTTP, 9, 9)(s); lagging(9, 9, 0.5)(s) }, want: Fail},
		{name: "its control is not there", edit: without(history.ApplicationControl, history.HTTP, 0, 99), want: Unknown, got: "never queried"},
		{name: "it was not requested", edit: without(history.Application, history.HTTPKept, 0, 99), want: Unknown, got: "no queries in mode fixed"},
		{name: "it lost requests before the notice", edit: refused(history.HTTP, 3.5, 3.6), want: Unknown, got: "before the first notice", noise: true},
		{name: "nothing is requested", edit: func(s *script) { s.scenario.Probe.Application = nil }, want: Unknown, got: "probes no application"},
		{name: "connections only", edit: func(s *script) {
			s.scenario.Probe.Application = &scenarios.ApplicationProbe{Transport: scenarios.OverTCP, Fresh: 40, Control: 10}
			without(history.Application, history.HTTPKept, 0, 99)(s)
		}, want: Pass, got: "0 of 1044 lost"},
	} {
		x.check = "application lost (all)"
		x.run(t, applicationStory)
	}
	for _, x := range []expectation{
		{name: "a window as long as allowed", edit: window(0, 1, refused(history.HTTP, 9, 9.99)), want: Pass},
		{name: "a window that is too long", edit: window(0, 1, refused(history.HTTP, 9, 10.1)), want: Fail, got: "1.125s from +9.000s"},
		{name: "a window that is too short", edit: window(1, 0, refused(history.HTTP, 9, 9.5)), want: Fail},
		{name: "a window of DNS", edit: window(1, 0, losing(fresh, 9, 12)), want: Fail, got: "no window"},
	} {
		x.check = "application window (fresh)"
		x.run(t, applicationStory)
	}
}

// DNS and the application are judged by their own queries, endpoints and flows.
func TestWhatTheApplicationLosesIsNotDNS(t *testing.T) {
	s := applicationStory()
	s.only(Require(Losses{Of: scenarios.DNS, Mode: "all", Max: new(0)}))
	s.lose(history.Application, history.HTTP, 9, 12, history.Timeout)
	// No endpoint of the application is one of DNS.
	s.at(8, history.NewEndpointGone(scenarios.App, "default/app-z", appStaying))
	r := s.judge()
	if v := r.Verdicts[0]; v.Outcome != Pass || r.Outcome != Pass {
		t.Errorf("%s: %s; the drill: %s", v.Outcome, v.Got, r.Outcome)
	}
	if len(r.Losses) != 0 || r.DNS.Fresh.Lost != 0 {
		t.Errorf("DNS lost %d: %+v", r.DNS.Fresh.Lost, r.Losses)
	}
	if r.Application.Fresh.Lost != 121 || len(r.ApplicationLosses) != 1 || r.ApplicationLosses[0].Cause != loss.NoEndpoint {
		t.Errorf("the application lost %d: %+v", r.Application.Fresh.Lost, r.ApplicationLosses)
	}
}

// A request of an application is lost to what its own flow shows. A flow of DNS from the same
// port reports nothing.
func TestCausesOfTheApplicationsLosses(t *testing.T) {
	flow := func(target string, backend string, from float64) func(*script) {
		return func(s *script) {
			s.flows = append(s.flows, history.Flow{Port: 50000, Target: target, Backend: backend, From: sec(from)})
		}
	}
	for name, c := range map[string]struct {
		edit func(*script)
		want loss.Cause
	}{
		"the rules led to the pod that had ended":   {flow(history.Application, appEnding, 8.999), loss.BackendEnded},
		"the connection was one to the ended pod":   {flow(history.Application, appEnding, 4), loss.OldEntry},
		"the pod that stays refused it":             {flow(history.Application, appStaying, 8.999), loss.Refused},
		"a flow of DNS leads to the pod that ended": {flow("", appEnding, 8.999), loss.Unexplained},
	} {
		s := applicationStory()
		s.at(28.9, history.NewFlowsRecorded("", history.With(history.Numbers{history.Resolution: 0.005})))
		c.edit(s)
		s.lose(history.Application, history.HTTP, 9, 9, history.ICMP)
		for i := range s.queries {
			if s.queries[i].Outcome == history.ICMP {
				s.queries[i].Port = 50000
			}
		}
		losses := s.judge().ApplicationLosses
		if len(losses) != 1 || losses[0].Cause != c.want || losses[0].Lost() != 1 {
			t.Errorf("%s: %+v, want %s", name, losses, c.want)
		}
	}
}

// Losses of an application that nothing explains are noted like those of DNS.
func TestTheApplicationsLossesAreToBeExplained(t *testing.T) {
	s := applicationStory()
	s.at(28.9, history.NewFlowsRecorded("", history.With(history.Numbers{history.Resolution: 0.005})))
	s.lose(history.Application, history.HTTP, 9, 14, history.ICMP)
	if v := named(t, s.judge(), "losses explained"); v.Outcome != Unknown || v.Got != "application: 201 of 201 lost without a cause" {
		t.Errorf("%s: %s", v.Outcome, v.Got)
	}
}
