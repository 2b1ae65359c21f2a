package verdict

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

func stories() map[string]func() *script {
	return map[string]func() *script{"drain": drainStory, "application": applicationStory, "incident": incidentStory, "outage": outageStory, "workload": workloadStory, "budget": budgetStory}
}

func TestStoriesPass(t *testing.T) {
	for name, play := range stories() {
		r := play().judge()
		for _, v := range r.Verdicts {
			if v.Outcome != Pass {
				t.Errorf("%s: %s is %s: %s", name, v.Check, v.Outcome, v.Got)
			}
		}
		if r.Outcome != Pass {
			t.Errorf("%s: outcome %s", name, r.Outcome)
		}
	}
}

func TestJudgingTwiceGivesTheSame(t *testing.T) {
	s := drainStory()
	if a, b := s.judge(), s.judge(); !reflect.DeepEqual(a, b) {
		t.Errorf("first %+v, then %+v", a, b)
	}
}

// Every check that the scenario format knows must have somebody who judges it.
func TestEveryCheckIsEvaluated(t *testing.T) {
	for _, k := range catalogue() {
		if k.judge == nil {
			continue
		}
		s := drainStory()
		s.only(Require(k.judge.zero))
		if r := s.judge(); r.Verdicts[0].Check == "unknown check" {
			t.Errorf("check %s is not evaluated", k.ID)
		}
	}
	s := drainStory()
	s.only(scenarios.Check{})
	if r := s.judge(); r.Verdicts[0].Outcome != Unknown || r.Outcome != Unknown {
		t.Errorf("a check without content is %s", r.Verdicts[0].Outcome)
	}
}

// needed are the events without which the stories must not pass, by kind. The
// others only add detail, or stand for what nothing was asked about.
func needed(story string, e history.Event) bool {
	switch e.Kind {
	case history.NodeRole, history.NodePresent, history.NoticePut, history.ProberEnded, history.Restored, history.RunEnded:
		return true
	case history.RunPhase:
		return slices.Contains([]history.Phase{history.Steps, history.Settle, history.Restore}, e.Phase())
	case history.PodPresent:
		return e.Pod == "default/coredns-a" || story == "drain" && e.Pod == "default/proxy-"+victim
	case history.PodCreated, history.NodeCordoned, history.PodDeleted, history.SQSReceived, history.SQSDeleted, history.ClusterEvent:
		return story == "drain" && e.Node != reserved
	case history.Reclaimed, history.EndpointReady:
		return story == "incident"
	}
	return false
}

func TestWithoutANeededEventNothingPasses(t *testing.T) {
	for name, play := range stories() {
		for i, e := range play().events {
			if !needed(name, e) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d-%s", name, i, strings.Join(append([]string{string(e.Kind)}, e.Words()...), "-")), func(t *testing.T) {
				t.Parallel()
				s := play()
				s.events = slices.Delete(s.events, i, i+1)
				if r := s.judge(); r.Outcome == Pass {
					t.Errorf("passes without %+v", e)
				}
			})
		}
	}
}

// A hole in the numbering shows that an event is missing, whichever it is.
func TestWithAHoleInTheRecordNothingPasses(t *testing.T) {
	for name, play := range stories() {
		s := play()
		h := s.history()
		for i, e := range h.Events {
			holed := h
			holed.Events = slices.Delete(slices.Clone(h.Events), i, i+1)
			if r := Judge(s.scenario, holed); r.Outcome == Pass {
				t.Errorf("%s passes with a hole in place of event %d, %s", name, e.Seq, e.Kind)
			}
		}
	}
}

func TestAnIncompleteHistoryNeverPasses(t *testing.T) {
	s := drainStory()
	s.cut = "queries.jsonl.gz: after query 12: unexpected EOF"
	r := s.judge()
	if v := named(t, r, "recording complete"); r.Outcome != Unknown || v.Got != s.cut {
		t.Errorf("outcome %s, got %q", r.Outcome, v.Got)
	}
}

// A correct handler never fails on a record that is cut short anywhere: what is not
// on record may have come.
func TestAHistoryCutShortBlamesNobody(t *testing.T) {
	for name, play := range stories() {
		s := play()
		h := s.history()
		for n := range h.Events {
			cut := h
			cut.Events, cut.Complete, cut.Damage = h.Events[:n], false, "cut short"
			if r := Judge(s.scenario, cut); r.Outcome != Unknown {
				for _, v := range r.Verdicts {
					if v.Outcome == Fail {
						t.Errorf("%s cut after %d events: %s fails: %s", name, n, v.Check, v.Got)
					}
				}
			}
		}
	}
}

func TestOverall(t *testing.T) {
	for _, c := range []struct {
		name     string
		outcomes []Outcome
		complete bool
		want     Outcome
	}{
		{"all pass", []Outcome{Pass, Pass}, true, Pass},
		{"a fail wins over unknown", []Outcome{Pass, Unknown, Fail}, true, Fail},
		{"unknown is not a pass", []Outcome{Pass, Unknown}, true, Unknown},
		{"the zero outcome is unknown", []Outcome{Pass, ""}, true, Unknown},
		{"so is an unknown outcome", []Outcome{Pass, "fine"}, true, Unknown},
		{"a skipped check is not a pass", []Outcome{Pass, Skipped}, true, Unknown},
		{"no verdicts", nil, true, Unknown},
		{"incomplete", []Outcome{Pass}, false, Unknown},
		{"incomplete with a fail", []Outcome{Fail}, false, Fail},
	} {
		t.Run(c.name, func(t *testing.T) {
			var verdicts []Verdict
			for _, o := range c.outcomes {
				verdicts = append(verdicts, Verdict{Outcome: o})
			}
			if got := overall(verdicts, c.complete); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestNeedsRerun(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*script)
		want bool
	}{
		{"a pass", func(*script) {}, false},
		{"control lost", func(s *script) { s.lose(history.Control, history.Fresh, 12, 12.3, history.Timeout) }, true},
		{"prober late", func(s *script) {
			s.change(history.ProberEnded, func(e *history.Event) { e.Numbers[history.LateP99] = 0.3 })
		}, true},
		{"noise before the notice", func(s *script) { s.lose(history.Service, history.Fixed, 3.5, 3.6, history.Timeout) }, true},
		{"control lost and not marked", func(s *script) {
			s.lose(history.Control, history.Fresh, 12, 12.1, history.Timeout)
			s.drop(func(e history.Event) bool { return e.Kind == history.NodeCordoned && e.Node == victim })
		}, false},
		{"control lost and the harness broke", func(s *script) {
			s.lose(history.Control, history.Fresh, 12, 12.1, history.Timeout)
			s.at(26, history.NewRunError("disk full"))
		}, false},
		{"service lost", func(s *script) { s.lose(history.Service, history.Fresh, 12, 12.1, history.Timeout) }, false},
		{"no prober", func(s *script) { s.drop(kind(history.ProberEnded)) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := drainStory()
			c.edit(s)
			if r := s.judge(); NeedsRerun(r) != c.want {
				t.Errorf("%s: needs a rerun: %t, want %t", r.Outcome, !c.want, c.want)
			}
		})
	}
	if s := drainStory().scenario; NeedsRerun(Skip(s, "no")) || NeedsRerun(NotRun(s, "broke")) || NeedsRerun(Result{}) {
		t.Error("a drill that was not run is to be repeated")
	}
}

func TestSkipAndNotRun(t *testing.T) {
	s := drainStory().scenario
	if r := Skip(s, "not claimed"); r.Outcome != Skipped || r.Scenario != s.Name || r.Verdicts[0].Got != "not claimed" {
		t.Errorf("skip: %+v", r)
	}
	if r := NotRun(s, "no cluster"); r.Outcome != Unknown || r.Verdicts[0].Got != "no cluster" {
		t.Errorf("not run: %+v", r)
	}
}
