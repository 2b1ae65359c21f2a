package run

import (
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

func TestRecordingContinuesUntilEveryCheckIsDecided(t *testing.T) {
	const within = 400 * time.Millisecond
	deleted := scenarios.Check{Deleted: &scenarios.Deleted{Of: "reclaim", Within: strict.Duration(within)}}
	replaced := scenarios.Check{Replaced: &scenarios.Replaced{Node: "victim", Notice: "reclaim"}}
	for name, c := range map[string]struct {
		checks  []scenarios.Check
		decided bool
		want    time.Duration // from the notice on
	}{
		"decided already":                                 {[]scenarios.Check{deleted}, true, 0},
		"until its time to act is over":                   {[]scenarios.Check{deleted}, false, within},
		"until the deadline of the notice":                {[]scenarios.Check{deleted, replaced}, false, 2 * within},
		"no check that the end of a recording can decide": {[]scenarios.Check{{QueueEmpty: &scenarios.QueueEmpty{}}}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec, err := history.Create(t.TempDir(), history.NewClock(), history.Meta{})
			if err != nil {
				t.Fatal(err)
			}
			r := &runner{rec: rec, broken: make(chan error), Drill: Drill{
				Scenario: scenarios.Scenario{Checks: c.checks},
				Decided:  func([]scenarios.Check) bool { return c.decided },
			}}
			put := rec.Clock().Now()
			deadline := put + 2*within
			rec.Record(history.NewNoticePut("reclaim", "", "", history.At(put), history.Until(deadline)))
			rec.Record(history.Settle.Begins())
			if err := r.untilDecided(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := rec.Clock().Now() - put; took < c.want || c.want == 0 && took > within/2 {
				t.Errorf("recorded for %s after the notice, want %s", took, c.want)
			}
		})
	}
}
