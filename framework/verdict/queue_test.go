package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

func TestDeletedNotice(t *testing.T) {
	received := func(seconds float64, message string) func(*script) {
		return func(s *script) {
			s.at(seconds, history.NewSQSReceived("", message, "n-1"))
		}
	}
	deleted := func(seconds float64, message string) func(*script) {
		return func(s *script) {
			s.at(seconds, history.NewSQSDeleted("", message, "n-1"))
		}
	}
	left := func(s *script) {
		s.change(history.QueueDepth, func(e *history.Event) { e.Numbers = history.Numbers{history.Visible: 1, history.Invisible: 0} })
	}
	for _, x := range []expectation{
		{name: "deleted", want: Pass, got: "2.000s"},
		{name: "late", edit: func(s *script) { s.drop(kind(history.SQSDeleted)); deleted(14.5, "m-1")(s) }, want: Fail, got: "after 10.500s"},
		{name: "received and kept", edit: func(s *script) { s.drop(kind(history.SQSDeleted)) }, want: Fail, got: "not deleted"},
		{name: "another message deleted", edit: func(s *script) { s.drop(kind(history.SQSDeleted)); deleted(6, "m-2")(s) }, want: Fail},
		{name: "received again and deleted again", edit: func(s *script) { received(7, "m-1")(s); deleted(8, "m-1")(s) }, want: Pass, got: "4.000s"},
		{name: "received again after the deletion", edit: received(7, "m-1"), want: Fail, got: "received again"},
		{name: "a duplicate kept", edit: received(7, "m-2"), want: Fail, got: "m-2"},
		{name: "a duplicate deleted", edit: func(s *script) { received(7, "m-2")(s); deleted(8, "m-2")(s) }, want: Pass, got: "2 deleted"},
		{name: "never received, left in the queue", edit: func(s *script) { s.drop(kind(history.SQSReceived)); left(s) }, want: Fail, got: "left in the queue"},
		{name: "never received while this machine stood still", edit: func(s *script) {
			s.drop(kind(history.SQSReceived))
			left(s)
			s.at(8, history.NewProcessorWaited("kube-system/coredns-a", history.With(history.Numbers{history.Waited: 0.05, history.Resolution: 6})))
		}, want: Unknown, got: "stood still from +2.000s to +8.000s"},
		{name: "never received, not in the queue either", edit: func(s *script) { s.drop(kind(history.SQSReceived)) }, want: Unknown, got: "never have got there"},
		{name: "one of two notices kept", edit: func(s *script) {
			s.at(4.1, history.NewNoticePut("reclaim", "", bystander, history.Notice("n-2")))
			s.at(4.3, history.NewSQSReceived("", "m-2", "n-2"))
		}, want: Fail, got: "m-2"},
		{name: "one notice for two nodes", edit: func(s *script) {
			s.at(4, history.NewNoticePut("reclaim", "", bystander, history.Notice("n-1")))
		}, want: Pass, got: "1 deleted"},
		{name: "never put", edit: func(s *script) { s.drop(kind(history.NoticePut)) }, want: Unknown},
		{name: "recording ends too soon", edit: func(s *script) {
			s.drop(kind(history.SQSDeleted))
			s.at(9, history.NewRunError("x"))
		}, want: Unknown, got: "recording ends there"},
		{name: "recording ends before it is received", edit: func(s *script) {
			s.drop(kind(history.SQSReceived))
			left(s)
			s.at(9, history.NewRunError("x"))
		}, want: Unknown, got: "never received"},
	} {
		x.check = "deleted reclaim"
		x.run(t, drainStory)
	}
}

// A handler may leave what it cannot use in the queue, if its description shows
// why, but no notice that calls for a drain.
func TestKeptMessage(t *testing.T) {
	const why = "it goes on to the dead-letter queue"
	keeping := func() *script {
		s := drainStory()
		s.scenario.Checks = []scenarios.Check{
			Require(Deleted{Of: "garbage", Within: strict.Duration(sec(5))}),
			Require(Deleted{Of: "reclaim", Within: strict.Duration(sec(10))}),
			Require(QueueEmpty{}),
		}
		s.meta.Handler.Keeps = map[string]string{"drain": why}
		s.at(10, history.NewMessagePut("garbage", "m-7"))
		s.at(10.5, history.NewSQSReceived("", "m-7", ""))
		s.change(history.QueueDepth, func(e *history.Event) { e.Numbers = history.Numbers{history.Visible: 1, history.Invisible: 0} })
		return s
	}
	unsaid := func(s *script) { s.meta.Handler.Keeps = nil }
	for _, x := range []expectation{
		{name: "kept", check: "deleted garbage", want: Pass, got: "1 kept: " + why},
		{name: "kept, and its description reports nothing", edit: unsaid, check: "deleted garbage", want: Fail},
		{name: "the notice kept", edit: func(s *script) { s.drop(kind(history.SQSDeleted)) }, check: "deleted reclaim", want: Fail},
		{name: "in the queue", check: "queue empty", want: Pass, got: "1 kept: " + why},
		{name: "in the queue, and its description reports nothing", edit: unsaid, check: "queue empty", want: Fail},
		{name: "more in the queue than may be", edit: func(s *script) {
			s.change(history.QueueDepth, func(e *history.Event) { e.Numbers = history.Numbers{history.Visible: 2, history.Invisible: 0} })
		}, check: "queue empty", want: Fail},
	} {
		x.run(t, keeping)
	}
}

func TestDeletedMessage(t *testing.T) {
	garbage := func() *script {
		s := drainStory()
		s.only(Require(Deleted{Of: "garbage", Within: strict.Duration(sec(5))}))
		s.at(10, history.NewMessagePut("garbage", "m-7"))
		s.at(10.5, history.NewSQSReceived("", "m-7", ""))
		s.at(11, history.NewSQSDeleted("", "m-7", ""))
		return s
	}
	for _, x := range []expectation{
		{name: "deleted", want: Pass, got: "1 deleted"},
		{name: "kept", edit: func(s *script) {
			s.drop(func(e history.Event) bool { return e.Kind == history.SQSDeleted && e.Message == "m-7" })
		}, want: Fail},
		{name: "not received", edit: func(s *script) {
			s.drop(func(e history.Event) bool { return e.Kind == history.SQSReceived && e.Message == "m-7" })
		}, want: Unknown},
		{name: "never put", edit: func(s *script) { s.drop(kind(history.MessagePut)) }, want: Unknown},
	} {
		x.check = "deleted garbage"
		x.run(t, garbage)
	}
}

// A deletion takes effect when its request arrives. Its answer may come much later.
func TestCommitPointGoesByTheArrivalOfTheDeletion(t *testing.T) {
	// deleting has the handler ask for the deletion at one time and get the answer at another.
	deleting := func(arrived, answered float64) func(*script) {
		return func(s *script) {
			committing(history.CommitRecorded, answered)(s)
			s.at(answered, history.NewSQSCall("", "DeleteMessage", "", history.Status(200), history.With(history.Numbers{history.Took: answered - arrived})))
		}
	}
	for _, x := range []expectation{
		{name: "arrived before the write, answered after it", edit: func(s *script) { deleting(4.3, 6.3)(s); wrote(s, 4.308) }, want: Fail, got: "0.008s before"},
		{name: "arrived after the write", edit: func(s *script) { deleting(4.308, 6.3)(s); wrote(s, 4.3) }, want: Pass},
		{name: "arrived as close to the write as the clocks are", edit: func(s *script) { deleting(4.3, 6.3)(s); wrote(s, 4.3005) }, want: Unknown},
		{name: "clocks that are further apart", edit: func(s *script) {
			deleting(4.3, 6.3)(s)
			wrote(s, 4.308)
			s.change(history.SQSCall, func(e *history.Event) { e.Numbers[history.ClockBound] = 0.05 })
		}, want: Unknown},
		{name: "the call of another deletion", edit: func(s *script) {
			deleting(4.3, 6.3)(s)
			wrote(s, 4.308)
			s.change(history.SQSCall, func(e *history.Event) { e.At = sec(6.4) })
		}, want: Pass},
	} {
		x.check = "commit point"
		x.run(t, drainStory)
	}
}

// It is not enough that as many messages are left as were not deleted: they must be
// those.
func TestNoMessageLostGoesByIdentity(t *testing.T) {
	vanished := func(s *script) { // the second notice, without a trace
		s.at(7, history.NewNoticePut("again", "", victim, history.Notice("n-2")))
	}
	left := func(n float64) func(*script) {
		return func(s *script) {
			s.change(history.QueueDepth, func(e *history.Event) { e.Numbers[history.Visible] = n })
		}
	}
	copied := func(s *script) { // the first notice came in two messages
		s.at(6.5, history.NewSQSReceived("", "m-1b", "n-1"))
	}
	for _, x := range []expectation{
		{name: "a copy of another notice is left in its place", edit: func(s *script) { vanished(s); copied(s); left(1)(s) }, want: Fail, got: "1 of 2 were not deleted"},
		{name: "both are left", edit: func(s *script) { vanished(s); copied(s); left(2)(s) }, want: Pass, got: "1 deleted, 2 left"},
		{name: "the copy is gone without a deletion", edit: func(s *script) { copied(s); left(0)(s) }, want: Fail, got: "m-1b"},
		{name: "what is left came again after it was deleted, or is the other", edit: func(s *script) {
			vanished(s)
			s.at(6.5, history.NewSQSReceived("", "m-1", "n-1"))
			left(1)(s)
		}, want: Unknown, got: "may be"},
		{name: "never received, and left", edit: func(s *script) { vanished(s); left(1)(s) }, want: Pass, got: "1 deleted, 1 left"},
		{name: "received, not deleted, and left", edit: func(s *script) {
			vanished(s)
			s.at(7.5, history.NewSQSReceived("", "m-2", "n-2"))
			left(1)(s)
		}, want: Pass, got: "1 deleted, 1 left"},
	} {
		x.check = "no message lost"
		x.run(t, drainStory)
	}
}
