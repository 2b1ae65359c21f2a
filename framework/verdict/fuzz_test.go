package verdict

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// FuzzJudge feeds histories that no run would write. Whatever they hold, the
// judge must come to an outcome, and to none of a pass where the history is not
// complete.
func FuzzJudge(f *testing.F) {
	for _, tell := range stories() {
		h := tell().history()
		h.Queries = h.Queries[:20]
		b, err := json.Marshal(h)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint8(3), int64(time.Second), true)
	}
	f.Add([]byte(`{}`), uint8(0), int64(0), false)
	f.Fuzz(func(t *testing.T, data []byte, pick uint8, shift int64, complete bool) {
		var h history.History
		if json.Unmarshal(data, &h) != nil {
			h = drainStory().history()
		}
		if n := len(h.Events); n > 0 {
			e := &h.Events[int(pick)%n]
			e.At += time.Duration(shift)
			if e.Until != nil {
				until := *e.Until - time.Duration(shift)
				e.Until = &until
			}
		}
		if n := len(h.Queries); n > 0 {
			h.Queries[int(pick)%n].Intended += time.Duration(shift)
		}
		h.Complete = complete
		for name, tell := range stories() {
			r := Judge(tell().scenario, h)
			if !complete && r.Outcome == Pass {
				t.Errorf("%s passes on an incomplete history", name)
			}
			if r.Outcome != r.Outcome.Known() || r.Outcome == Skipped {
				t.Errorf("%s comes to outcome %q", name, r.Outcome)
			}
		}
	})
}
