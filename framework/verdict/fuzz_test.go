package verdict

import (
	"math"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// vocabulary is what a fuzzed history is made of: what the stories have, and
// what no run would write.
type vocabulary struct {
	events   []history.Event
	times    []time.Duration
	outcomes []history.Outcome
}

func ofUnknownKind(kind history.Kind) (e history.Event) {
	e.Kind = kind
	return e
}

func newVocabulary() vocabulary {
	v := vocabulary{
		times:    []time.Duration{0, math.MinInt64, math.MaxInt64, -1, 1},
		outcomes: append(history.Outcomes(), "", "fine"),
		events: []history.Event{
			{},
			ofUnknownKind("pod."),
			history.NewPodDeleted("", ""),
			history.NewRunError(""),
			history.NewNodeDeleted(victim),
			history.NewProberEnded("", history.With(history.Numbers{history.Asked: math.NaN(), history.UnsentQueries: math.Inf(1), history.LateP99: -1})),
			history.NewNoticePut("reclaim", "", victim),
			history.NewMessagePut("reclaim", ""),
		},
	}
	for _, play := range stories() {
		for _, e := range play().history().Events {
			v.events, v.times = append(v.events, e), append(v.times, e.At)
		}
	}
	return v
}

// history reads two bytes an event, and three a query if the first is 255.
func (v vocabulary) history(data []byte, complete bool) history.History {
	h := history.History{Meta: history.Meta{Scenario: "drain", Handler: history.Handler{Unschedulable: true}}, Complete: complete}
	for len(data) >= 3 {
		if data[0] == 255 {
			q := history.Query{
				Target: []string{history.Service, history.Control, ""}[data[1]%3], Mode: []history.Mode{history.Fresh, history.Fixed, ""}[data[1]/3%3],
				Intended: v.times[int(data[2])%len(v.times)], Done: v.times[int(data[1])%len(v.times)], Outcome: v.outcomes[int(data[2])%len(v.outcomes)],
			}
			h.Queries, data = append(h.Queries, q), data[3:]
			continue
		}
		e := v.events[int(data[0])%len(v.events)]
		if data[1] > 0 {
			e.At = v.times[int(data[1])%len(v.times)]
		}
		e.Seq = len(h.Events) + 1
		h.Events, data = append(h.Events, e), data[2:]
	}
	return h
}

// FuzzJudge feeds histories that no run would write. Whatever they hold, the
// judge must come to an outcome, and to none of a pass if the history is not
// complete.
func FuzzJudge(f *testing.F) {
	words := newVocabulary()
	// Short ones: what is long is shortened for a minute before it is of use.
	for from := range min(len(words.events), 255) / 8 {
		var some []byte
		for i := range 8 {
			some = append(some, byte(8*from+i), 0)
		}
		f.Add(some, true)
	}
	f.Add([]byte{255, 0, 1, 255, 1, 0, 5, 0, 255, 3, 2}, false)
	f.Add([]byte{}, true)
	var played []scenarios.Scenario
	for _, name := range []string{"drain", "incident", "workload", "budget"} {
		played = append(played, stories()[name]().scenario)
	}
	f.Fuzz(func(t *testing.T, data []byte, complete bool) {
		h := words.history(data, complete)
		for _, s := range played {
			r := Judge(s, h)
			if !complete && r.Outcome == Pass {
				t.Errorf("%s passes on an incomplete history", r.Scenario)
			}
			if r.Outcome != r.Outcome.Known() || r.Outcome == Skipped {
				t.Errorf("%s comes to outcome %q", r.Scenario, r.Outcome)
			}
		}
	})
}
