package verdict

import (
	"math"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// called adds calls of ReceiveMessage that arrive at that rate and take 50 ms each.
func called(from, to, perSecond float64) func(*script) {
	return func(s *script) {
		for i := range int(math.Round((to - from) * perSecond)) {
			s.at(from+float64(i)/perSecond+0.05, history.NewSQSCall("", "ReceiveMessage", "", history.With(history.Numbers{history.Took: 0.05})))
		}
	}
}

func TestCallsWhileAFaultLasts(t *testing.T) {
	throttled := func() *script {
		s := outageStory()
		s.only(Require(Calls{To: "queue", Max: 5, Per: strict.Duration(sec(1)), During: "outage"}))
		return s
	}
	for _, x := range []expectation{
		{name: "with pauses", edit: called(3, 5, 2), want: Pass, got: "4 calls, at most 2 within 1s"},
		{name: "again at once", edit: called(3, 5, 100), want: Fail, got: "calls within 1s from +3."},
		{name: "a burst of as many as are allowed", edit: called(4, 4.05, 100), want: Pass, got: "at most 5"},
		{name: "a burst of one more", edit: called(4, 4.06, 100), want: Fail, got: "6 calls within 1s from +4.000s on, mostly ReceiveMessage; 5 are allowed"},
		{name: "many before and after", edit: func(s *script) { called(1, 2.9, 100)(s); called(5.1, 9, 100)(s); called(3, 5, 1)(s) }, want: Pass},
		{name: "calls of the proxy's own", edit: func(s *script) {
			called(3, 5, 100)(s)
			s.change(history.SQSCall, func(e *history.Event) { e.Owner = history.ProxyOwner })
			called(3, 5, 1)(s)
		}, want: Pass, got: "2 calls"},
		{name: "calls of another service", edit: func(s *script) {
			called(3, 5, 100)(s)
			s.change(history.SQSCall, func(e *history.Event) { e.Action = "ec2:DescribeInstances" })
			called(3, 5, 1)(s)
		}, want: Pass, got: "2 calls"},
		{name: "no call at all", want: Unknown, got: "proves nothing"},
		{name: "the fault hit none", edit: func(s *script) { called(3, 5, 2)(s); s.drop(kind(history.FaultHit)) }, want: Unknown, got: "hit no call"},
		{name: "the fault did not begin", edit: func(s *script) { s.drop(kind(history.FaultBegun)) }, want: Unknown, got: "never began"},
		{name: "the fault was shorter than the span", edit: func(s *script) {
			called(3, 5, 2)(s)
			longer := s.scenario.Checks[0].Requirement.(Calls)
			longer.Per = strict.Duration(sec(3))
			s.only(Require(longer))
		}, want: Unknown, got: "the period is 3s"},
		{name: "the record has a gap", edit: func(s *script) { called(3, 5, 2)(s); s.at(4.9, history.NewRunError("x")) }, want: Unknown, got: "not all on record"},
		{name: "too many before the gap", edit: func(s *script) {
			called(3, 4, 100)(s)
			s.at(4.9, history.NewRunError("x"))
		}, want: Fail},
	} {
		x.check = "calls of SQS outage"
		x.run(t, throttled)
	}
}

func TestCallsOfAnIdleHandler(t *testing.T) {
	idle := func() *script {
		s := drainStory()
		s.only(Require(Calls{To: "queue", Max: 10, Per: strict.Duration(sec(5))}))
		return s
	}
	for _, x := range []expectation{
		{name: "with long polls", edit: called(2, 29, 0.1), want: Pass, got: "calls, at most 1 within 5s"},
		{name: "in a busy loop", edit: called(2, 29, 50), want: Fail, got: "calls within 5s"},
		{name: "in a busy loop at the end only", edit: func(s *script) { called(2, 24, 0.1)(s); called(25, 29, 10)(s) }, want: Fail},
		{name: "before the drill only", edit: func(s *script) { called(0.5, 1.9, 50)(s); called(2, 29, 0.1)(s) }, want: Pass},
		{name: "the recording ends too early", edit: func(s *script) {
			called(2, 20, 0.1)(s)
			s.at(20, history.NewRunError("x"))
		}, want: Unknown},
	} {
		x.check = "calls of SQS"
		x.run(t, idle)
	}
}

// A time to act may count from when the handler could reach the Kubernetes API again.
func TestMarkedAfterADisturbance(t *testing.T) {
	cutOff := func() *script {
		s := drainStory()
		s.only(Require(Marked{Node: "victim", Notice: "reclaim", After: "partition", Within: strict.Duration(sec(5))}))
		s.at(3, history.NewHandlerDisturbed("partition", history.CutOffHandler))
		s.at(12, history.NewHandlerLeftAlone("partition", history.CutOffHandler, history.With(history.Numbers{history.Dropped: 7})))
		cordonedAt(16)(s)
		return s
	}
	for _, x := range []expectation{
		{name: "in time after its end", want: Pass, got: "after 4.000s"},
		{name: "too late after its end", edit: cordonedAt(18), want: Fail, got: "after 6.000s"},
		{name: "never, because the message was hidden for hours", edit: func(s *script) { s.drop(kind(history.NodeCordoned)) }, want: Fail, got: "not marked"},
		{name: "it did not end", edit: func(s *script) { s.drop(kind(history.HandlerLeftAlone)) }, want: Unknown, got: "did not end"},
		{name: "it dropped nothing", edit: func(s *script) {
			s.change(history.HandlerLeftAlone, func(e *history.Event) { e.Numbers = nil })
		}, want: Unknown, got: "dropped no packet"},
	} {
		x.check = "marked victim"
		x.run(t, cutOff)
	}
}
