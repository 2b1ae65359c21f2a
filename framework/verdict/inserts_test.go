package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// The kernel counts the packets that it dropped for lack of an entry, and does not show whose
// they were. Three queries without an entry are three such packets only if there were three
// at that time: with more, others may have been dropped in their place.
func TestQueriesWithoutAnEntry(t *testing.T) {
	for name, c := range map[string]struct {
		at      float64 // when the count was read
		packets float64 // 0 for none
		want    Outcome
	}{
		"as many packets":          {12.1, 3, Pass},
		"none":                     {12.1, 0, Fail},
		"fewer":                    {12.1, 2, Fail},
		"more":                     {12.1, 5, Unknown},
		"as many, at another time": {13.1, 3, Fail},
	} {
		t.Run(name, func(t *testing.T) {
			s := servedStory()
			s.scenario.Checks = []scenarios.Check{Require(Losses{Of: scenarios.DNS, Mode: "all", Max: new(0), ExceptConntrack: true})}
			s.lose(history.Service, history.Fresh, 12, 12.3, history.Answered)
			s.lose(history.Service, history.Fixed, 12, 12.3, history.Answered)
			lost := s.timeOut(history.Service, 12, 12.04)
			for i, q := range s.queries {
				if q.Outcome == history.Timeout {
					s.queries[i].Port = 50000 // no flow has it
				}
			}
			if lost != 3 {
				t.Fatalf("%d queries have no entry", lost)
			}
			if c.packets > 0 {
				s.at(c.at, history.NewInsertsFailed("", history.With(history.Numbers{history.InsertFailed: c.packets, history.Within: 0.11})))
			}
			if v := s.judge().Verdicts[0]; v.Outcome != c.want {
				t.Errorf("%s: %s, want %s", v.Outcome, v.Got, c.want)
			}
		})
	}
}
