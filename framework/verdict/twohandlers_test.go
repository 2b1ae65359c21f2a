package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// pairStory is a drain together with a second handler that leaves everything alone. A recommendation for
// the victim comes at +2.5, and the notice at +4.
func pairStory() *script {
	s := drainStory()
	s.scenario.Probe, s.queries = nil, nil
	s.scenario.OtherHandler = &scenarios.OtherHandler{Name: "nth", Queue: scenarios.OwnQueue}
	s.scenario.Steps = append([]scenarios.Step{
		{Notice: &scenarios.Notice{Name: "advice", Type: "rebalance-recommendation", Nodes: []string{"victim"}}},
	}, s.scenario.Steps...)
	s.meta.Other = &history.Handler{Name: "nth", Version: "2", Unschedulable: true, Taint: "example.com/second"}
	s.scenario.Checks = []scenarios.Check{
		Require(HandlersAgree{NodeNotice{Node: "victim", Notice: "reclaim"}}),
		Require(LeadGained{Node: "victim", Notice: "reclaim", AtLeast: strict.Duration(sec(1))}),
	}
	s.at(2.5, history.NewNoticePut("advice", "", victim, history.Notice("n-0"), history.Instance("i-a")))
	s.at(2.6, history.NewSQSReceived("", "m-0", "n-0"))
	s.at(2.8, history.NewSQSDeleted("", "m-0", "n-0"))
	s.acted(4.4, "", history.NewHandlerWrote("", victim, "", history.Action("patch")))
	s.acted(4.9, "", history.NewHandlerTook("", "default/coredns-a", history.Action("evict")))
	s.at(29.15, history.NewAuditRead("handler"))
	s.at(29.15, history.NewAuditRead("nth", history.By(history.OtherHandler)))
	return s
}

// acted records what the audit log reports of a handler.
func (s *script) acted(seconds float64, by string, e history.Event) {
	said := sec(seconds)
	e.Said, e.By = &said, by
	s.at(29.12, e)
}

// secondActs lets the second handler do what the first does in pairStory.
func secondActs(seconds float64) func(*script) {
	return func(s *script) {
		s.acted(seconds, history.OtherHandler, history.NewHandlerWrote("", victim, "", history.Action("patch")))
		s.acted(seconds+0.5, history.OtherHandler, history.NewHandlerTook("", "default/coredns-a", history.Action("evict")))
	}
}

// firstRests removes what the first handler did.
func firstRests(s *script) {
	s.drop(func(e history.Event) bool {
		return (e.Kind == history.HandlerWrote || e.Kind == history.HandlerTook) && e.By == ""
	})
}

func TestHandlersAgree(t *testing.T) {
	both := func(edits ...func(*script)) func(*script) {
		return func(s *script) {
			for _, edit := range edits {
				edit(s)
			}
		}
	}
	bySecond := func(kinds ...history.Kind) func(*script) {
		return func(s *script) {
			for _, k := range kinds {
				s.change(k, func(e *history.Event) { e.By = history.OtherHandler })
			}
		}
	}
	expect(t, "handlers agree about victim", pairStory, []expectation{
		{name: "the first drains", want: Pass, got: "only builtin acted, 0.400s after the notice"},
		{name: "the second drains", edit: both(firstRests, secondActs(5), bySecond(history.SQSReceived, history.SQSDeleted)), want: Pass, got: "only nth acted, 1.000s after the notice"},
		{name: "both drain", edit: secondActs(4.7), want: Fail, got: "both drain: builtin first, nth 0.300s later (builtin: 1 change of the node, 1 eviction; nth: 1 change of the node, 1 eviction)"},
		{name: "both drain, the second at the recommendation", edit: secondActs(3), want: Fail, got: "both drain: nth first, builtin 1.400s later"},
		{name: "the second deletes the message and does nothing", edit: both(firstRests, bySecond(history.SQSReceived, history.SQSDeleted)), want: Fail, got: "nth received and deleted the message at +6.000s and did nothing with worker-spot-a"},
		{name: "the first deletes the message and does nothing", edit: firstRests, want: Fail, got: "builtin received and deleted the message"},
		{name: "the second deletes a copy of its own and does nothing", edit: func(s *script) {
			s.at(4.3, history.NewSQSReceived("", "m-2", "n-1", history.By(history.OtherHandler)))
			s.at(4.4, history.NewSQSDeleted("", "m-2", "n-1", history.By(history.OtherHandler)))
		}, want: Pass},
		{name: "the second takes the cordon off", edit: func(s *script) { s.at(7, history.NewNodeUncordoned(victim)) }, want: Fail, got: "a mark was taken off worker-spot-a at +7.000s"},
		{name: "a taint of the second handler comes off", edit: func(s *script) {
			s.at(7, history.NewNodeUntainted(victim, "example.com/second", ""))
		}, want: Fail, got: "a mark was taken off"},
		{name: "a taint of Kubernetes comes off", edit: func(s *script) {
			s.at(7, history.NewNodeUntainted(victim, "node.kubernetes.io/unschedulable", ""))
		}, want: Pass},
		{name: "the second changes another node", edit: func(s *script) {
			s.acted(5, history.OtherHandler, history.NewHandlerWrote("", bystander, "", history.Action("patch")))
		}, want: Pass},
		{name: "what one did is not on record", edit: func(s *script) {
			s.drop(func(e history.Event) bool { return e.Kind == history.AuditRead && e.By != "" })
		}, want: Unknown, got: "audit log was not read"},
		{name: "there was one handler", edit: func(s *script) { s.meta.Other = nil }, want: Unknown, got: "no second handler"},
		{name: "neither acts, and the message stays", edit: both(firstRests, func(s *script) { s.drop(kind(history.SQSDeleted)) }), want: Unknown, got: "neither handler"},
	})
}

func TestLeadGained(t *testing.T) {
	expect(t, "lead of the second handler on victim", pairStory, []expectation{
		{name: "at the recommendation", edit: secondActs(2.7), want: Pass, got: "nth acted 1.300s before the notice"},
		{name: "only just before the notice", edit: secondActs(3.5), want: Fail, got: "nth acted 0.500s before the notice"},
		{name: "at the notice", edit: secondActs(4.2), want: Fail, got: "nth acted 0.200s after the notice"},
		{name: "never", want: Fail, got: "nth did nothing with worker-spot-a"},
		{name: "what it did is not on record", edit: func(s *script) { s.drop(kind(history.AuditRead)) }, want: Unknown, got: "audit log was not read"},
	})
}

// No other check finds that two handlers drain one node.
func TestOnlyHandlersAgreeFindsADoubleDrain(t *testing.T) {
	s := pairStory()
	secondActs(2.7)(s)
	missedBefore(t, s, "handlers agree about victim")
}
