package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
)

// lifecycleStory is a drain whose lifecycle action is completed when the last pod is gone, at +10.
func lifecycleStory() *script {
	s := drainStory()
	s.scenario.Steps[0].Notice.Type = history.LifecycleAction
	s.only(Require(LifecycleCompleted{NodeNotice{Node: "victim", Notice: "reclaim"}}))
	s.change(history.NoticePut, func(e *history.Event) {
		*e = history.NewNoticePut(e.Step(), history.LifecycleAction, e.Node, history.Like(*e))
	})
	s.completes(10.2, "CONTINUE")
	return s
}

func (s *script) completes(seconds float64, result string) {
	s.at(seconds, history.NewLifecycleActed("CompleteLifecycleAction", "hook", "i-a", result))
}

func TestLifecycleCompleted(t *testing.T) {
	acted := kind(history.LifecycleActed)
	expect(t, "lifecycle action of victim completed", lifecycleStory, []expectation{
		{name: "when the last pod is gone", want: Pass, got: "completed 6.200s after the notice"},
		{name: "before", edit: func(s *script) { s.move(acted, 7) }, want: Fail, got: "completed 3.000s before the last pod was gone"},
		{name: "just before it was seen to be gone", edit: func(s *script) { s.move(acted, 9.8) }, want: Pass},
		{name: "never", edit: func(s *script) { s.drop(acted) }, want: Fail, got: "never completed"},
		{name: "with ABANDON", edit: func(s *script) { s.drop(acted); s.completes(10.2, "ABANDON") }, want: Fail, got: "completed with ABANDON"},
		{name: "of another instance", edit: func(s *script) {
			s.change(history.LifecycleActed, func(e *history.Event) { e.Instance = "i-b" })
		}, want: Fail, got: "never completed"},
		{name: "when the heartbeat timeout is over", edit: func(s *script) { s.move(acted, 24.5) }, want: Fail, got: "when the heartbeat timeout was over"},
		{name: "only a heartbeat", edit: func(s *script) {
			s.change(history.LifecycleActed, func(e *history.Event) { e.Action = "RecordLifecycleActionHeartbeat" })
		}, want: Fail, got: "never completed"},
		{name: "a pod stays", edit: func(s *script) {
			s.drop(func(e history.Event) bool { return e.Kind == history.PodDeleted && e.Pod == "default/coredns-a" })
		}, want: Fail, got: "the node never drained"},
		{name: "not seen for long enough", edit: func(s *script) { s.drop(acted); cutAt(12)(s) }, want: Unknown, got: "not completed"},
	})
}
