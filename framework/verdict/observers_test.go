package verdict

import (
	"slices"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

var observed = []string{"own-a", "own-b", "own-c"}

// observe records a prober's queries, and what it reported of itself.
func (s *script) observe(prober string, from, to float64) {
	before := len(s.queries)
	s.at(from, history.NewTargetFound(prober, "kube-dns", "10.96.0.10", history.Pod("ours/prober-"+prober)))
	s.at(from, history.NewProberStarted(prober))
	s.ask(history.Service, history.Fresh, 20, from, to)
	s.ask(history.Service, history.Fixed, 10, from, to)
	s.ask(history.Direct("10.0.0.1"), history.Fresh, 2, from, to)
	asked := len(s.queries) - before
	s.ask(history.Echo, history.Fixed, 25, from, to)
	for i := range s.queries[before:] {
		s.queries[before+i].Node = prober
	}
	s.at(to, history.NewProberEnded(prober, history.With(history.Numbers{
		history.Asked: float64(asked), history.UnsentQueries: 0, history.LateP99: 0.001, history.LateMax: 0.002,
	})))
}

// observedStory is a cluster of the user's, in which DNS answered everything. It passes.
func observedStory() *script {
	s := &script{
		scenario: scenarios.Scenario{
			Name: "observation", Title: "An observation", Profile: scenarios.ObserveProfile, Handler: scenarios.HandlerNone, Observe: &scenarios.Observe{},
			Probe:  &scenarios.Probe{Fresh: 60, Fixed: 30, FixedPorts: 3, Control: 6, Probers: 3},
			Settle: strict.Duration(sec(5)),
			Checks: []scenarios.Check{Require(Losses{Of: scenarios.DNS, Mode: "all", Max: new(0)})},
		},
		meta: history.Meta{Format: history.FormatV1, Scenario: "observation", Set: "full", Attempt: 1, Handler: history.Handler{Name: "none"}},
	}
	s.at(0.1, history.Arrange.Begins())
	for _, node := range observed {
		s.at(0.2, history.NewNodePresent(node, ""))
		s.at(0.3, history.NewPodPresent("ours/prober-"+node, "uid-"+node, "", "", history.Node(node), history.Owner("DaemonSet/observe")))
		s.observe(node, 1, 26)
	}
	s.at(0.3, history.NewEndpointReady("", "kube-system/coredns-a", "10.0.0.1"))
	s.at(0.3, history.NewRolloutComplete("Deployment/kube-system/coredns"))
	s.at(4, history.Steps.Begins())
	s.at(4, history.NewObservationBegun(""))
	s.at(20, history.NewObservationEnded())
	s.at(20, history.Settle.Begins())
	s.at(26.1, history.Restore.Begins())
	s.at(26.2, history.NewRunEnded())
	return s
}

// breakOff ends the record of own-b at a time, without a summary.
func breakOff(at float64) func(*script) {
	return func(s *script) {
		s.queries = slices.DeleteFunc(s.queries, func(q history.Query) bool { return q.Node == "own-b" && q.Intended >= sec(at) })
		s.drop(func(e history.Event) bool { return e.Kind == history.ProberEnded && e.Node == "own-b" })
		s.at(at+1, history.NewProberBroke("own-b", "the stream ended", history.Pod("ours/prober-own-b")))
	}
}

// then edits one after the other.
func then(edits ...func(*script)) func(*script) {
	return func(s *script) {
		for _, edit := range edits {
			edit(s)
		}
	}
}

func happens(at float64, e history.Event) func(*script) { return func(s *script) { s.at(at, e) } }

// loses gives queries to the service of one prober in a time another fate.
func loses(node string, from, to float64) func(*script) {
	return func(s *script) {
		for i, q := range s.queries {
			if q.Node == node && q.Target == history.Service && q.Intended >= sec(from) && q.Intended < sec(to) {
				s.queries[i].Outcome, s.queries[i].Done = history.Timeout, q.Intended+sec(2)
			}
		}
	}
}

// stalls makes a prober's own responder late.
func stalls(node string, at float64) func(*script) {
	return func(s *script) {
		for i, q := range s.queries {
			if q.Node == node && q.Target == history.Echo && q.Intended >= sec(at) && q.Intended < sec(at+0.1) {
				s.queries[i].Done = q.Intended + sec(0.08)
			}
		}
	}
}

func TestObservedClusters(t *testing.T) {
	t.Parallel()
	if r := observedStory().judge(); r.Outcome != Pass {
		t.Fatalf("nothing was lost: %s, %+v", r.Outcome, r.Verdicts)
	}
	ended := history.NewPodTerminating("ours/prober-own-b", "uid-own-b", history.Node("own-b"))
	for _, x := range []expectation{
		{"a connection that broke is no hole", happens(10, history.NewProberResumed("own-b", "reset")), "prober", Pass, "broke 1 time, and its record went on", false},
		{"a prober that died is a hole", breakOff(10), "prober", Unknown, "its node did not leave", false},
		{"its pod was removed, and its node stays", then(breakOff(10), happens(10, ended)), "prober", Unknown, "its node did not leave", false},
		{"its node was deleted", then(breakOff(10), happens(11, history.NewNodeDeleted("own-b"))), "prober", Pass, "probers that ended with their nodes: 1", false},
		{"another node was deleted", then(breakOff(10), happens(11, history.NewNodeDeleted("own-c"))), "prober", Unknown, "its node did not leave", false},
		{"its node is not Ready", then(breakOff(10), happens(25, history.NewNodeNotReady("own-b", "Unknown"))), "prober", Pass, "ended with their nodes", false},
		{"its node was cordoned and its pod ended", then(happens(8, history.NewNodeCordoned("own-b")), breakOff(10), happens(10, ended)), "prober", Pass, "ended with their nodes", false},
		{"its node was uncordoned before", then(happens(5, history.NewNodeCordoned("own-b")), happens(6, history.NewNodeUncordoned("own-b")), breakOff(10), happens(10, ended)), "prober", Unknown, "its node did not leave", false},
		{"a prober began again after a hole", then(breakOff(10), func(s *script) { s.observe("own-b", 12, 26) }), "prober", Unknown, "no query on record between", false},
		{"a prober stalled while others went on", func(s *script) {
			s.queries = slices.DeleteFunc(s.queries, func(q history.Query) bool {
				return q.Node == "own-c" && q.Target == history.Service && q.Intended > sec(10) && q.Intended < sec(10.6)
			})
			s.change(history.ProberEnded, func(e *history.Event) { e.Numbers[history.Asked] -= 40 })
		}, "prober", Unknown, "own-c: no query on record between", false},
		{"a prober that joined", func(s *script) {
			s.at(9, history.NewNodePresent("own-d", ""))
			s.observe("own-d", 10, 26)
		}, "prober", Pass, "", false},
		{"a prober that was not there when it began", func(s *script) { s.scenario.Probe.Probers = 4 }, "prober", Unknown, "3 of 4 probers", false},
		{"no prober was there to the end", func(s *script) {
			s.queries = slices.DeleteFunc(s.queries, func(q history.Query) bool { return q.Intended >= sec(15) })
			s.change(history.ProberEnded, func(e *history.Event) { e.Numbers[history.Asked] = 1 })
			for _, node := range observed {
				s.at(15, history.NewNodeDeleted(node))
			}
		}, "prober", Unknown, "no prober was there from the beginning to the end", false},
		{"a prober reported no result", func(s *script) {
			s.drop(func(e history.Event) bool { return e.Kind == history.ProberEnded && e.Node == "own-a" })
		}, "prober", Unknown, "own-a: it reported no result", true},
		{"queries are missing from the record", func(s *script) {
			s.change(history.ProberEnded, func(e *history.Event) { e.Numbers[history.Asked]++ })
		}, "prober", Unknown, "on record", true},
		{"a prober was late", func(s *script) {
			s.change(history.ProberEnded, func(e *history.Event) { e.Numbers[history.LateP99] = 0.3 })
		}, "prober", Unknown, "left 300 ms late", true},
		{"queries could not leave", func(s *script) {
			for i, q := range s.queries {
				if q.Target == history.Service && i%20 == 0 {
					s.queries[i].Outcome, s.queries[i].Sent = history.Unsent, 0
				}
			}
		}, "prober", Unknown, "could not leave", true},
		{"its node could not take the answers", func(s *script) {
			s.change(history.ProberEnded, func(e *history.Event) { e.Numbers[history.Dropped] = 3 })
		}, "prober", Unknown, "too busy to take them", true},

		{"DNS was broken before", loses("own-b", 3.2, 3.9), "baseline", Unknown, "before anything began", true},
		{"all was over", func(*script) {}, "settled", Pass, "over at +20.000s, and the record goes on until +26.100s", false},
		{"a pod of CoreDNS is in lameduck at the end", happens(20.1, history.NewEndpointTerminating("", "kube-system/coredns-a", "10.0.0.1", true)), "settled", Unknown, "not over at the end of the record: pod kube-system/coredns-a of CoreDNS terminates since +20.100s", false},
		{"the record ends soon after a rollout", then(
			happens(20, history.NewRolloutProgressing("Deployment/kube-system/coredns", "1 of 2 updated")), happens(22, history.NewRolloutComplete("Deployment/kube-system/coredns")),
		), "settled", Unknown, "all is over: not by +26.100s", false},
		{"only the application's rollouts were watched", then(func(s *script) { s.drop(kind(history.RolloutComplete)) }, happens(1, history.NewRolloutComplete("StatefulSet/shop/db"))), "settled", Unknown, "no right to list and watch the Deployments", false},
		{"a rollout of the application is not complete", happens(15, history.NewRolloutProgressing("StatefulSet/shop/db", "2 of 3 updated")), "settled", Unknown, "the rollout of StatefulSet/shop/db is not complete (2 of 3 updated)", false},
		{"rollouts were not watched", func(s *script) { s.drop(kind(history.RolloutComplete)) }, "settled", Unknown, "no right to list and watch the Deployments", false},
		{"the command did not end", func(s *script) { s.drop(kind(history.ObservationEnded)) }, "settled", Unknown, "did not end", false},
		{"the pods of the application were not watched", func(s *script) {
			s.scenario.Probe.Application = &scenarios.ApplicationProbe{Fresh: 1}
		}, "settled", Unknown, "the pods of the application were not watched", false},
		{"the application is outside of the cluster", func(s *script) {
			s.scenario.Probe.Application = &scenarios.ApplicationProbe{Fresh: 1}
			s.at(4, history.NewTargetFound("", history.Application, "192.0.2.1:80", history.Note("no Service")))
		}, "settled", Pass, "all was over", false},
		{"the watch of pods was lost and did not come back", happens(21, history.NewWatchLost("pods")), "settled", Unknown, "the watch of pods was lost", false},
		{"nothing began", func(s *script) { s.drop(kind(history.ObservationBegun)) }, "baseline", Unknown, "nothing began", false},

		{"one prober lost queries", loses("own-b", 10, 10.5), "dns lost (all)", Fail, "15 of ", false},
		{"while its own responder was late", then(loses("own-b", 10, 10.5), stalls("own-b", 10.2)), "dns lost (all)", Unknown, "only 0 of them surely by the cluster", true},
		{"while that of another machine was late", then(loses("own-b", 10, 10.5), stalls("own-a", 10.2)), "dns lost (all)", Fail, "15 of ", false},

		{"a drill is put back", func(s *script) {
			s.scenario.Observe.Permission = scenarios.DrainNode
			s.at(26.15, history.NewRestored(history.Note("node own-a uncordoned")))
		}, "restored", Pass, "uncordoned", false},
		{"a drill is not put back", func(s *script) { s.scenario.Observe.Permission = scenarios.DrainNode }, "restored", Unknown, "does not report", false},
	} {
		x.run(t, observedStory)
	}
}

func TestAnApplicationIsObservedAsWell(t *testing.T) {
	t.Parallel()
	play := func() *script {
		s := observedStory()
		s.scenario.Probe.Application = &scenarios.ApplicationProbe{Transport: scenarios.OverHTTP, Fresh: 30, Fixed: 30, FixedPorts: 3, Control: 3}
		s.only(Require(Losses{Of: scenarios.Application, Mode: "all", Max: new(0)}))
		s.at(0.3, history.NewEndpointReady(scenarios.App, "default/web", "10.0.0.9"))
		for _, node := range observed {
			before := len(s.queries)
			s.ask(history.Application, history.HTTP, 10, 1, 26)
			s.ask(history.Application, history.HTTPKept, 10, 1, 26)
			for i := range s.queries[before:] {
				s.queries[before+i].Node = node
			}
		}
		return s
	}
	if r := play().judge(); r.Outcome != Pass {
		t.Fatalf("nothing was lost: %s, %+v", r.Outcome, r.Verdicts)
	}
	lost := func(s *script) {
		for i, q := range s.queries {
			if q.Target == history.Application && q.Node == "own-b" && q.Intended >= sec(10) && q.Intended < sec(11) {
				s.queries[i].Outcome = history.ICMP
			}
		}
	}
	expectation{"requests are lost", lost, "application lost (all)", Fail, "20 of ", false}.run(t, play)
	silent := func(s *script) {
		s.queries = slices.DeleteFunc(s.queries, func(q history.Query) bool {
			return q.Target == history.Application && q.Node == "own-b" && q.Intended > sec(10)
		})
	}
	expectation{"requests are missing", silent, "prober", Unknown, "application: the prober on own-b", false}.run(t, play)
}

func TestAShareOfAnswersIsRequired(t *testing.T) {
	t.Parallel()
	share := func(percent float64, more ...func(*script)) func(*script) {
		return func(s *script) {
			s.only(Require(Losses{Of: scenarios.DNS, Mode: "all", Answered: percent}))
			then(more...)(s)
		}
	}
	// 2070 queries count, from one second before the beginning to the end; 2 are 0.097 %.
	lost := loses("own-b", 10, 10.05)
	for _, x := range []expectation{
		{"all answered", share(100), "dns answered (all)", Pass, "100.0000 % answered", false},
		{"two lost of those that may be", share(99.9, lost), "dns answered (all)", Pass, "2 of ", false},
		{"two lost, none may be", share(100, lost), "dns answered (all)", Fail, "% answered: 2 of ", false},
		{"two lost, one may be", share(99.95, lost), "dns answered (all)", Fail, "2 of ", false},
		{"the prober cannot be trusted", share(99, breakOff(10)), "dns answered (all)", Unknown, "prober", false},
	} {
		x.run(t, observedStory)
	}
}

func TestWhatIsNotRecordedOfAnotherClusterIsSaid(t *testing.T) {
	t.Parallel()
	s := observedStory()
	loses("own-b", 10, 10.5)(s)
	r := s.judge()
	if len(r.Losses) != 1 || r.Losses[0].Cause != loss.Untracked || !strings.Contains(loss.Explain(r.Losses), "connection tracking was not recorded") {
		t.Errorf("losses %+v", r.Losses)
	}
	for _, v := range r.Verdicts {
		if v.ID == checkReservedUntouched.ID || v.ID == checkCauseless.ID || v.ID == checkPrivileges.ID {
			t.Errorf("%s judges a cluster that is not ours", v.ID)
		}
	}
	s = observedStory()
	for i, q := range s.queries {
		if _, direct := history.AskedDirectly(q.Target); direct && q.Intended > sec(8) {
			s.queries[i].Outcome = history.Timeout
		}
	}
	s.at(12, history.NewEndpointTerminating("", "kube-system/coredns-a", "10.0.0.1", false))
	if v := named(t, s.judge(), "control"); v.Outcome != Pass || v.Numbers["lost_direct"] == 0 || v.Numbers["lost_direct"] > 3*2*4 {
		t.Errorf("%s, %v lost directly: want those until the pod left", v.Outcome, v.Numbers["lost_direct"])
	}
}
