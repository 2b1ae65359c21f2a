package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/story"
)

// A drill that lost many queries and knows of too few why cannot be judged.
func TestLossesExplained(t *testing.T) {
	for _, c := range []struct {
		name          string
		lost, unknown int
		want          Outcome
	}{
		{"none", 0, 0, Pass},
		{"few, and none of them explained", 20, 20, Pass},
		{"many, some of them not explained", 100, 5, Pass},
		{"many, too many of them not explained", 100, 6, Unknown},
	} {
		s := servedStory()
		d := newJudge(story.Read(s.scenario, s.history()))
		d.attribution = func() *loss.Attribution {
			return &loss.Attribution{Losses: []loss.Loss{{Cause: loss.OldEntry, Fixed: c.lost - c.unknown}, {Cause: loss.Unexplained, Fixed: c.unknown}}}
		}
		if v, ok := checkExplained.always(d, checkExplained.verdict()); !ok || v.Outcome != c.want || v.Noise != (c.want == Unknown) {
			t.Errorf("%s: %s (noise %t), want %s: %s", c.name, v.Outcome, v.Noise, c.want, v.Got)
		}
		s.drop(kind(history.FlowsRecorded))
		if _, ok := checkExplained.always(newJudge(story.Read(s.scenario, s.history())), checkExplained.verdict()); ok {
			t.Errorf("%s: asked without a record of flows", c.name)
		}
	}
}
