package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

const replica = "10.0.0.9"

// call records a call to the API server that took 10 ms until then.
func (s *script) call(seconds float64, e history.Event) {
	e.IP = replica
	if e.Numbers == nil {
		e.Numbers = history.Numbers{}
	}
	e.Numbers[history.Took] = 0.01
	s.at(seconds, e)
}

func (s *script) mark(seconds float64, status int, fault string) {
	s.call(seconds, history.NewAPICall("patch", history.NodesResource, []string{"unschedulable", "example.com/disrupted"}, history.Node(victim), history.Status(status), history.Fault(fault)))
}

func (s *script) evict(seconds float64, status int, fault string) {
	s.call(seconds, history.NewAPICall("create", history.EvictionsResource, nil, history.Pod("default/coredns-a"), history.Status(status), history.Fault(fault)))
}

// fault records a fault of the API server, and gives the scenario its step.
func (s *script) fault(f fault.Fault, from, to float64) {
	f.Name = "f"
	s.scenario.Steps = append([]scenarios.Step{{Fault: &scenarios.Fault{Fault: f}}}, s.scenario.Steps...)
	s.at(from, history.NewFaultBegun("f", f.Type))
	s.at(from+0.01, history.NewFaultHit("f", f.Type))
	s.at(to, history.NewFaultEnded("f", "time"))
}

// checkedBy is a drain with calls on record, judged by one check.
func checkedBy(c scenarios.Check, calls func(*script)) func() *script {
	return func() *script {
		s := drainStory()
		s.only(c)
		s.at(2, history.NewAPIWatching(history.NodesResource, history.IP(replica)))
		calls(s)
		return s
	}
}

func isCall(e history.Event) bool { return e.Kind == history.APICall }

// A handler that writes until the end is in the audit log for longer than on the record.
func TestARequestAfterTheEndOfTheRecordWentPastNobody(t *testing.T) {
	for name, c := range map[string]struct {
		ends float64
		want Outcome
	}{"after the end": {19, Pass}, "before the end": {21, Unknown}} {
		t.Run(name, func(t *testing.T) {
			play := checkedBy(Require(Marked{Node: "victim", Notice: "reclaim", BeforeEviction: true}), func(s *script) {
				s.mark(4.4, 200, "")
				s.evict(4.9, 201, "")
				s.at(c.ends, history.NewAPIRecorded())
				said := sec(20)
				s.at(24.5, history.NewHandlerWrote("", victim, "", history.Action("patch"), history.Said(said)))
			})
			if v := named(t, play().judge(), "victim marked before its first eviction"); v.Outcome != c.want {
				t.Errorf("%s, %s", v.Outcome, v.Got)
			}
		})
	}
}

// unproxied loses the record of calls, in two ways: there is none, or the audit log has more.
func unproxied() []expectation {
	return []expectation{
		{name: "no call went through the proxy", edit: func(s *script) {
			s.drop(func(e history.Event) bool {
				return isCall(e) || e.Kind == history.APIWatching || e.Kind == history.APIFolded
			})
		}, want: Unknown, got: "no call of the handler's"},
		{name: "a request went past the proxy", edit: func(s *script) {
			said := sec(20)
			s.at(24.5, history.NewHandlerWrote("", victim, "", history.Action("patch"), history.Said(said)))
		}, want: Unknown, got: "at +20.000s (patch " + victim + ") that did not go through"},
	}
}

func runAll(t *testing.T, check string, play func() *script, all ...expectation) {
	t.Helper()
	for _, x := range append(all, unproxied()...) {
		x.check = check
		x.run(t, play)
	}
}

func TestMarkedFirst(t *testing.T) {
	play := checkedBy(Require(Marked{Node: "victim", Notice: "reclaim", BeforeEviction: true}), func(s *script) {
		s.mark(4.4, 200, "")
		s.evict(4.9, 201, "")
	})
	remark := func(at float64, status int, fault string) func(*script) {
		return func(s *script) {
			s.drop(func(e history.Event) bool { return isCall(e) && e.Action == "patch" })
			s.mark(at, status, fault)
		}
	}
	runAll(t, "victim marked before its first eviction", play,
		expectation{name: "marked first", want: Pass, got: "0.490s before default/coredns-a was asked"},
		expectation{name: "marked while the eviction was under way", edit: remark(4.895, 200, ""), want: Fail, got: "0.005s before"},
		expectation{name: "marked only later", edit: remark(6, 200, ""), want: Fail, got: "asked to leave 1.110s before"},
		expectation{name: "the mark refused, and evicted all the same", edit: remark(4.4, 409, "f"), want: Fail, got: "never marked"},
		expectation{name: "the mark's answer lost", edit: remark(4.4, 200, "f"), want: Pass},
		expectation{name: "the eviction refused, before the mark", edit: func(s *script) { s.evict(4.3, 429, "") }, want: Fail, got: "asked to leave 0.110s before"},
		expectation{name: "a pod of another node evicted before", edit: func(s *script) {
			s.call(4.3, history.NewAPICall("create", history.EvictionsResource, nil, history.Pod("default/ending"), history.Status(201)))
		}, want: Pass},
		expectation{name: "a pod deleted before the mark", edit: func(s *script) {
			s.call(4.3, history.NewAPICall("delete", history.PodsResource, nil, history.Pod("default/coredns-a"), history.Status(200)))
		}, want: Fail},
		expectation{name: "another taint", edit: func(s *script) {
			s.change(history.APICall, func(e *history.Event) {
				if e.Action == "patch" {
					*e = history.NewAPICall(e.Action, e.Resource, []string{"example.com/other"}, history.Like(*e))
				}
			})
		}, want: Fail, got: "never marked"},
		expectation{name: "written in an unreadable format", edit: func(s *script) {
			s.change(history.APICall, func(e *history.Event) {
				if e.Action == "patch" {
					*e = history.NewAPICall(e.Action, e.Resource, []string{history.MarksUnknown}, history.Like(*e))
				}
			})
		}, want: Unknown, got: "cannot read"},
		expectation{name: "nothing evicted", edit: func(s *script) {
			s.drop(func(e history.Event) bool { return isCall(e) && e.Action == "create" })
		}, want: Unknown, got: "no pod of " + victim},
		expectation{name: "a handler without marks", edit: func(s *script) { s.meta.Handler.Unschedulable, s.meta.Handler.Taint = false, "" }, want: Unknown, got: "claims no mark"},
	)
}

func TestRetried(t *testing.T) {
	conflict := fault.Fault{Type: "conflict", Count: 2}
	play := checkedBy(Require(Retried{Fault: "f", Within: strict.Duration(sec(5))}), func(s *script) {
		s.fault(conflict, 3, 4.3)
		s.mark(4.25, 409, "f")
		s.mark(4.3, 409, "f")
		s.mark(4.4, 200, "")
	})
	without := func(s *script) {
		s.drop(func(e history.Event) bool { return isCall(e) && e.Fault == "" })
	}
	runAll(t, "retried after f", play,
		expectation{name: "retried", want: Pass, got: "2 calls hit"},
		expectation{name: "not retried", edit: without, want: Fail, got: "patch of /nodes " + victim + ", last tried at +4.300s, never done"},
		expectation{name: "retried late", edit: func(s *script) { without(s); s.mark(10, 200, "") }, want: Fail, got: "done only after 5.700s"},
		expectation{name: "refused again", edit: func(s *script) { without(s); s.mark(4.4, 500, "") }, want: Fail, got: "never done"},
		expectation{name: "by an update instead of a patch", edit: func(s *script) {
			without(s)
			s.call(4.4, history.NewAPICall("update", history.NodesResource, nil, history.Node(victim), history.Status(200)))
		}, want: Pass},
		expectation{name: "another node written", edit: func(s *script) {
			without(s)
			s.call(4.4, history.NewAPICall("patch", history.NodesResource, nil, history.Node(bystander), history.Status(200)))
		}, want: Fail, got: "never done"},
		expectation{name: "only read", edit: func(s *script) {
			without(s)
			s.call(4.4, history.NewAPICall("get", history.NodesResource, nil, history.Node(victim), history.Status(200)))
		}, want: Fail, got: "never done"},
		expectation{name: "an eviction never repeated, of a pod that left", edit: func(s *script) { s.evict(4.9, 500, "f") }, want: Pass},
		expectation{name: "an eviction never repeated, of a pod that stays", edit: func(s *script) {
			s.evict(4.9, 500, "f")
			s.drop(func(e history.Event) bool {
				return e.Pod == "default/coredns-a" && (e.Kind == history.PodTerminating || e.Kind == history.PodDeleted || e.Kind == history.PodEvicted)
			})
		}, want: Fail, got: "create of /pods/eviction default/coredns-a"},
		expectation{name: "read another way", edit: func(s *script) {
			s.call(4.2, history.NewAPICall("get", history.NodesResource, nil, history.Node(victim), history.Status(500), history.Fault("f")))
			s.call(4.5, history.NewAPICall("list", history.NodesResource, nil, history.Status(200)))
		}, want: Pass, got: "3 calls hit"},
		expectation{name: "the fault goes on", edit: func(s *script) { s.drop(kind(history.FaultEnded)) }, want: Pass},
		expectation{name: "the fault waits for another call, which never comes", edit: func(s *script) {
			without(s)
			s.drop(kind(history.FaultEnded))
		}, want: Fail, got: "never done"},
		expectation{name: "the fault hit nothing", edit: func(s *script) { s.drop(func(e history.Event) bool { return e.Fault != "" }) }, want: Unknown, got: "hit no call"},
		expectation{name: "a call that is never answered, and never ends", edit: func(s *script) {
			s.drop(isCall)
			s.change(history.FaultHit, func(e *history.Event) { e.Action, e.Resource, e.Node = "update", history.NodesResource, victim })
		}, want: Fail, got: "update of /nodes " + victim + ", last tried at +3.010s, never done"},
		expectation{name: "the recording ends too soon", edit: func(s *script) { without(s); s.at(6, history.NewRunError("x")) }, want: Unknown, got: "recording ends there"},
		expectation{name: "the instance gone before it could be repeated", edit: func(s *script) {
			s.mark(23, 409, "f")
		}, want: Pass},
	)
}

func TestCallsBounded(t *testing.T) {
	bounded := Calls{To: "api", Max: 10, Per: strict.Duration(sec(5))}
	play := checkedBy(Require(bounded), func(s *script) {
		for i := range 40 {
			s.call(3+0.5*float64(i), history.NewAPICall("get", history.NodesResource, nil, history.Node(victim), history.Status(200)))
		}
	})
	folded := func(at, calls float64, ip string) func(*script) {
		return func(s *script) {
			s.at(at, history.NewAPICall("patch", history.NodesResource, nil, history.Node(victim), history.Status(429), history.IP(ip)).Folded(history.Numbers{history.Calls: calls, history.Within: 1}))
		}
	}
	runAll(t, "calls bounded throughout", play,
		expectation{name: "two a second", want: Pass, got: "at most 10 calls in 5s"},
		expectation{name: "one more", edit: func(s *script) { s.mark(10.1, 200, "") }, want: Fail, got: "11 calls in 5s"},
		expectation{name: "a burst that was counted", edit: folded(10.1, 90, replica), want: Fail, got: "90 of them patch /nodes"},
		expectation{name: "a burst by another replica", edit: folded(10.1, 9, "10.0.0.8"), want: Pass},
		expectation{name: "too many by another replica", edit: folded(10.1, 11, "10.0.0.8"), want: Fail, got: "11 calls"},
		expectation{name: "too many before the first step", edit: folded(1.9, 90, replica), want: Pass},
		expectation{name: "too many while the handler may still be starting", edit: folded(6.8, 90, replica), want: Pass},
		expectation{name: "too many right after that", edit: folded(8.1, 90, replica), want: Fail, got: "calls in 5s"},
		expectation{name: "too many while the cluster is restored", edit: folded(31, 90, replica), want: Pass},
	)
	during := checkedBy(Require(Calls{To: "api", Max: 10, Per: strict.Duration(sec(5)), During: "f"}), func(s *script) {
		s.fault(fault.Fault{Type: "throttle", For: strict.Duration(sec(10))}, 10, 20)
		folded(25, 90, replica)(s)
	})
	runAll(t, "calls bounded f", during,
		expectation{name: "too many only after the fault", want: Pass, got: "at most 0 calls"},
		expectation{name: "too many during the fault", edit: folded(15, 90, replica), want: Fail, got: "90 calls"},
		expectation{name: "the fault goes on", edit: func(s *script) { s.drop(kind(history.FaultEnded)) }, want: Unknown, got: "did not begin and end"},
	)
}

func TestRetryAfterKept(t *testing.T) {
	throttled := func(s *script, at float64) {
		s.call(at, history.NewAPICall("create", history.EvictionsResource, nil, history.Pod("default/coredns-a"), history.Status(429), history.Fault("f"), history.With(history.Numbers{history.RetryAfter: 2})))
	}
	play := checkedBy(Require(RetryAfterKept{Fault: "f"}), func(s *script) {
		s.fault(fault.Fault{Type: "throttle", Count: 1, RetryAfter: strict.Duration(sec(2))}, 3, 5)
		throttled(s, 5)
		s.evict(7.1, 201, "")
	})
	runAll(t, "Retry-After of f kept", play,
		expectation{name: "kept", want: Pass, got: "1 throttled calls"},
		expectation{name: "repeated at once", edit: func(s *script) { s.evict(5.02, 201, "") }, want: Fail, got: "repeated after 0.010s, and Retry-After is 2s"},
		expectation{name: "repeated a moment too early", edit: func(s *script) { s.evict(7.005, 201, "") }, want: Fail},
		expectation{name: "throttled twice, and repeated early the second time", edit: func(s *script) { throttled(s, 7.05); s.evict(8, 201, "") }, want: Fail, got: "repeated after 0.040s"},
		expectation{name: "another pod evicted meanwhile", edit: func(s *script) {
			s.call(6, history.NewAPICall("create", history.EvictionsResource, nil, history.Pod("default/other"), history.Status(201)))
		}, want: Pass},
		expectation{name: "never repeated", edit: func(s *script) {
			s.drop(func(e history.Event) bool { return isCall(e) && e.Fault == "" })
		}, want: Pass},
		expectation{name: "the recording ends too soon", edit: func(s *script) {
			s.drop(func(e history.Event) bool { return isCall(e) && e.Fault == "" })
			s.at(6, history.NewRunError("x"))
		}, want: Unknown, got: "recording ends there"},
		expectation{name: "no Retry-After", edit: func(s *script) {
			s.change(history.APICall, func(e *history.Event) { delete(e.Numbers, history.RetryAfter) })
		}, want: Unknown, got: "no call was answered with 429"},
	)
}

func TestWatchedAgain(t *testing.T) {
	watch := func(s *script, at float64, status int) {
		s.call(at, history.NewAPICall("watch", history.NodesResource, nil, history.Status(status)))
	}
	play := checkedBy(Require(Retried{Fault: "f", Within: strict.Duration(sec(5))}), func(s *script) {
		s.fault(fault.Fault{Type: "watch-ended", For: strict.Duration(sec(1))}, 3, 4)
		s.change(history.FaultHit, func(e *history.Event) { e.Action, e.Resource, e.IP = "watch", history.NodesResource, replica })
		watch(s, 4.5, 200)
	})
	never := func(s *script) { s.drop(isCall) }
	runAll(t, "watched again after f", play,
		expectation{name: "watched again", want: Pass, got: "1 watch ended"},
		expectation{name: "never", edit: never, want: Fail, got: "watch of /nodes ended at +3.010s, and not begun again by +9.000s"},
		expectation{name: "late", edit: func(s *script) { never(s); watch(s, 9.5, 200) }, want: Fail},
		expectation{name: "refused", edit: func(s *script) { never(s); watch(s, 5, 403) }, want: Fail},
		expectation{name: "by another replica", edit: func(s *script) {
			s.change(history.APICall, func(e *history.Event) { e.IP = "10.0.0.8" })
		}, want: Fail},
		expectation{name: "another resource", edit: func(s *script) {
			s.change(history.APICall, func(e *history.Event) { e.Resource = history.PodsResource })
		}, want: Fail},
		expectation{name: "the recording ends too soon", edit: func(s *script) { never(s); s.at(6, history.NewRunError("x")) }, want: Unknown, got: "recording ends there"},
		expectation{name: "no watch was ended", edit: func(s *script) { s.drop(kind(history.FaultHit)) }, want: Unknown, got: "ended no watch"},
	)
}
