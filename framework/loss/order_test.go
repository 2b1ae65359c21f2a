package loss

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// starvedScript has a pod that loses some of the service's queries and of the control's, while it
// has no processor and its socket drops fewer datagrams than that: the starvation proves nothing.
func starvedScript() *script {
	s := lossStory()
	s.at(0.3, history.NewControlChosen("", "default/coredns-z", staying))
	for _, at := range []float64{12, 12.1, 12.2} {
		s.sent(history.Fixed, 2, at, history.Timeout)
		s.sent(history.Fresh, 0, at, history.Timeout)
		s.queries[len(s.queries)-1].Target = history.Control
	}
	s.starve("coredns-z", 11.9, 12.35, 0, 2)
	return s
}

// What is known of a drill does not depend on what was asked first.
func TestNothingDependsOnWhatWasAskedFirst(t *testing.T) {
	s := starvedScript()
	ask := map[string]func(*Attribution) any{
		"proven": func(a *Attribution) any { return a.starved.proven(a.starved.at("default/coredns-z", sec(12))) },
		"lags":   func(a *Attribution) any { return a.lags },
		"shown":  func(a *Attribution) any { return a.Undisturbed(history.Window{From: sec(11), To: sec(13)}) },
		"losses": func(a *Attribution) any { return a.Losses },
		"steady": func(a *Attribution) any { return a.Steady(a.measured.Streams("all")) },
		"rest":   func(a *Attribution) any { return a.Without(Unexplained) },
		"control": func(a *Attribution) any {
			lost, _ := a.ExplainedAtControl()
			return lost
		},
		"hidden": func(a *Attribution) any { return a.Hiding(a.measured.Streams("all"), false) },
	}
	for name, what := range ask {
		first := what(s.attribute())
		for earlier, other := range ask {
			a := s.attribute()
			other(a)
			if got := what(a); !reflect.DeepEqual(got, first) {
				t.Errorf("%s asked first is %v, and after %s %v", name, first, earlier, got)
			}
		}
	}
	if ask["proven"](s.attribute()) != false {
		t.Error("a starvation is proven that lost more than its socket dropped")
	}
	if lags := s.attribute().lags[""]; !slices.Equal(lags, []time.Duration{sec(12), sec(12.1), sec(12.2)}) {
		t.Errorf("the control was lost at %v", lags)
	}
}
