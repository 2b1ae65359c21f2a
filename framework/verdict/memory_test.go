package verdict

import (
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// floodStory is a flood of ten minutes during which the handler's memory fills its caches
// and then moves up and down by 4 MiB, as a garbage collector has it. It passes.
func floodStory() *script {
	s := &script{
		scenario: scenarios.Scenario{
			Name: "flood", Title: "A flood", Profile: "STORM",
			Nodes:  map[string]scenarios.Pick{"victim": {Capacity: "spot"}},
			Settle: strict.Duration(sec(2)),
			Steps: []scenarios.Step{{Message: &scenarios.Message{
				Name: "foreign", Body: "x", Every: strict.Duration(time.Second), For: strict.Duration(10 * time.Minute),
			}}},
			Checks: []scenarios.Check{Require(HandlerMemory{During: "foreign", GrowthMiB: 16})},
		},
		meta: history.Meta{Format: history.FormatV1, Scenario: "flood", Set: "soak", Attempt: 1, Handler: history.Handler{Name: "builtin", Deployment: "default/handler"}},
	}
	s.arrange()
	for _, pod := range []string{"handler-5d8f-x", "handler-5d8f-y"} {
		s.pod(1, history.PodPresent, pod, reserved, "ReplicaSet/handler-5d8f")
		for i := range 61 {
			held := min(40+float64(i)*5, 70) + float64(i%3)*2
			s.at(3+float64(i)*10, history.NewMemoryUsed("default/"+pod, history.With(history.Numbers{history.Bytes: held * (1 << 20)})))
		}
	}
	for i := range 600 {
		s.at(4+float64(i), history.NewMessagePut("foreign", "m"))
	}
	s.at(605, history.Settle.Begins())
	s.restore(610)
	return s
}

// grows makes the memory of a pod grow by so much for each reading.
func grows(pod string, mebibytes float64) func(*script) {
	return func(s *script) {
		i := 0.0
		s.change(history.MemoryUsed, func(e *history.Event) {
			if e.Pod == pod {
				e.Numbers = history.Numbers{history.Bytes: e.Numbers[history.Bytes] + i*mebibytes*(1<<20)}
				i++
			}
		})
	}
}

func TestHandlerMemory(t *testing.T) {
	unread := func(from, to float64) func(*script) {
		return func(s *script) {
			s.drop(func(e history.Event) bool {
				return e.Kind == history.MemoryUsed && e.At >= sec(from) && e.At <= sec(to)
			})
		}
	}
	for _, x := range []expectation{
		{name: "caches fill, then it stays", want: Pass, got: "with 600 messages in 599.000s"},
		{name: "one pod grows a little with each message", edit: grows("default/handler-5d8f-y", 0.5), want: Fail, got: "default/handler-5d8f-y grew from 78.5 to 99.5 MiB"},
		{name: "it grows less than is allowed", edit: grows("default/handler-5d8f-x", 0.2), want: Pass, got: "default/handler-5d8f-x grew from"},
		{name: "no memory on record", edit: unread(0, 700), want: Unknown, got: "its memory is not on record"},
		{name: "this machine shows none", edit: func(s *script) {
			unread(0, 700)(s)
			s.at(3, history.NewWaitsRecorded(history.Note("the engine runs in a virtual machine")))
		}, want: Unknown, got: "not on record: the engine runs in a virtual machine"},
		{name: "a minute of it is missing", edit: unread(300, 360), want: Unknown, got: "not on record from +293.000s to +363.000s"},
		{name: "its end is missing", edit: unread(540, 700), want: Unknown, got: "not on record from +533.000s"},
		{name: "a flood that was cut short", edit: func(s *script) {
			s.drop(func(e history.Event) bool { return e.Kind == history.MessagePut && e.At > sec(500) })
		}, want: Unknown, got: "lasted only 496.000s of 10m0s"},
		{name: "no flood", edit: func(s *script) { s.drop(kind(history.MessagePut)) }, want: Unknown, got: "no message"},
		{name: "no handler", edit: func(s *script) { s.meta.Handler.Deployment = "default/other" }, want: Unknown, got: "no pod of the handler"},
		{name: "a pod that was gone before the flood", edit: func(s *script) {
			s.pod(1, history.PodPresent, "handler-5d8f-z", reserved, "ReplicaSet/handler-5d8f")
			s.pod(2, history.PodDeleted, "handler-5d8f-z", reserved, "ReplicaSet/handler-5d8f")
		}, want: Pass},
		{name: "the recording breaks off", edit: func(s *script) { s.at(300, history.NewRunError("x")) }, want: Unknown, got: "not to the end of the flood"},
	} {
		x.check = "the handler's memory during foreign"
		x.run(t, floodStory)
	}
}
