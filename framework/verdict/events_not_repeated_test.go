package verdict

import (
	"fmt"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
)

func TestEventsNotRepeated(t *testing.T) {
	play := func() *script {
		s := drainStory()
		s.meta.Handler.Reporter = "builtin"
		return s
	}
	events := func(n int, every float64, note string) func(*script) {
		return func(s *script) {
			for i := range n {
				s.at(5+every*float64(i), history.NewClusterEvent("Node", "Draining", history.Node(victim), history.Owner("builtin"), history.Note(fmt.Sprintf(note, i))))
			}
		}
	}
	for _, x := range []expectation{
		{name: "one", want: Pass, got: "1 event, none of them more than 1 time a minute"},
		{name: "as many as may be", edit: events(6, 1, "for %d s"), want: Pass, got: "7 events, none of them more than 6 times"},
		{name: "with each look, and another number", edit: events(7, 1, "for %d s"), want: Fail, got: "7 events Draining about " + victim + " within 6.000s"},
		{name: "by somebody else", edit: func(s *script) {
			events(9, 1, "for %d s")(s)
			s.meta.Handler.Reporter = "spot-handler"
			s.at(5, history.NewClusterEvent("Node", "Drained", history.Node(victim), history.Owner("spot-handler")))
		}, want: Pass},
		{name: "about many pods", edit: func(s *script) {
			for i := range 20 {
				s.at(5, history.NewClusterEvent("Node", "EvictionBlocked", history.Node(victim), history.Owner("builtin"), history.Note("pod "+string(rune('a'+i)))))
			}
		}, want: Pass},
	} {
		x.check = "events not repeated"
		x.run(t, play)
	}
	s := drainStory()
	for _, v := range s.judge().Verdicts {
		if v.ID == "eventsNotRepeated" {
			t.Errorf("without a reporter: it is %s: %s", v.Outcome, v.Got)
		}
	}
}

// The minute moves along: what is a minute old does not count.
func TestTheDensestMinute(t *testing.T) {
	var events []history.Event
	for _, second := range []float64{0, 20, 59, 60, 61, 130} {
		events = append(events, history.NewClusterEvent("Node", "Draining", history.At(sec(second))))
	}
	if most := densest(events); len(most) != 4 || most[0].At != sec(20) {
		t.Errorf("%d events from %s", len(most), most[0].At)
	}
}
