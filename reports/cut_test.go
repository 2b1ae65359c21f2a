package reports

import (
	"flag"
	"hash/fnv"
	"slices"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

// cutsFlag samples: all lines of all drills are 28,000 judgements, and take minutes.
var cutsFlag = flag.Int("cuts", 23, "a recorded drill is cut at each line of this many, 1 for each line")

// A record that is cut off or has a hole shows nothing: every verdict of it is unknown. A recording that ended
// early, as one does whose run is stopped, fails nothing that the whole recording does not fail, and passes no drill
// that it does not pass.
func TestARecordThatIsNotWholeFailsNothing(t *testing.T) {
	for _, name := range corpusNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := recordingOf(t, name)
			s, whole := r.scenario, r.history
			whole.Queries, whole.Flows = nil, nil // whether those are whole, the prober shows
			before := verdict.Judge(s, whole)
			offset := fnv.New32()
			_, _ = offset.Write([]byte(name))
			last := slices.IndexFunc(whole.Events, history.Restore.BegunBy)
			for n := 1 + int(offset.Sum32()%uint32(*cutsFlag)); n < len(whole.Events); n += *cutsFlag {
				for what, events := range map[string][]history.Event{
					"cut off": slices.Clone(whole.Events[:n]), "without a line": slices.Delete(slices.Clone(whole.Events), n-1, n),
				} {
					broken := whole
					broken.Events, broken.Complete = events, what != "cut off"
					for _, v := range verdict.Judge(s, broken).Verdicts {
						if v.Outcome != verdict.Unknown {
							t.Errorf("%s at line %d: %s: %s: %s", what, n, v.Check, v.Outcome, v.Got)
						}
					}
				}
				if n >= last { // the recording had ended: one that ends there would be longer
					continue
				}
				ended := verdict.Judge(s, endedAt(whole, whole.Events[n].At))
				if ended.Outcome == verdict.Pass && before.Outcome != verdict.Pass {
					t.Errorf("ended at line %d: the drill passes", n)
				}
				for _, v := range ended.Verdicts {
					if v.Outcome == verdict.Fail && !failsIn(before, v) {
						t.Errorf("ended at line %d: %s fails: %s", n, v.Check, v.Got)
					}
				}
			}
		})
	}
}

// endedAt is the history as if the recording had ended then, and the cluster had been restored.
func endedAt(h history.History, at time.Duration) history.History {
	events := slices.DeleteFunc(slices.Clone(h.Events), func(e history.Event) bool {
		return e.At > at || history.Restore.BegunBy(e) || e.Kind == history.RunEnded
	})
	events = append(events, history.Restore.Begins(history.At(at+1)), history.NewRestored(history.At(at+2)), history.NewRunEnded(history.At(at+2)))
	for i := range events {
		events[i].Seq = i + 1
	}
	h.Events = events
	return h
}

func failsIn(r verdict.Result, as verdict.Verdict) bool {
	return slices.ContainsFunc(r.Verdicts, func(v verdict.Verdict) bool {
		return v.ID == as.ID && v.Check == as.Check && v.Outcome == verdict.Fail
	})
}
