package observe

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Complete means the same as in a drill: the harness did all of its part.
func TestAnObservationThatFailsIsNotComplete(t *testing.T) {
	t.Parallel()
	for name, failed := range map[string]error{"nothing failed": nil, "the watch broke": context.DeadlineExceeded} {
		dir := t.TempDir()
		rec, err := history.Create(dir, history.NewClock(), history.Meta{})
		if err != nil {
			t.Fatal(err)
		}
		r := &recorder{Recorder: rec}
		if failed != nil {
			_ = r.fail(failed)
		}
		if err := r.close(); err != nil {
			t.Fatal(err)
		}
		h, err := history.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		if h.Complete != (failed == nil) {
			t.Errorf("%s: complete %t", name, h.Complete)
		}
	}
	// An interrupt before the first list of the cluster fails the observation.
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	dir := t.TempDir()
	o := &Observation{placed: &placed{Cluster: &Cluster{Clientset: fake.NewClientset()}}}
	if err := o.Record(ctx, dir, history.Meta{}, Action{Do: func(context.Context, *history.Recorder) error { return nil }}); err == nil {
		t.Error("no error after an interrupt")
	}
	if h, err := history.Load(dir); err != nil || h.Complete {
		t.Errorf("after an interrupt: complete %t, %v", h.Complete, err)
	}
}

// A record goes on until all that began has ended and has stayed so for the settle time, within the limit.
func TestTheRecordGoesOnUntilAllHasEnded(t *testing.T) {
	for name, c := range map[string]struct {
		over        time.Duration // when the last of it ends, after the command; 0 for nothing that began
		limit, most time.Duration
		want        time.Duration
	}{
		"nothing began":                            {0, 5 * time.Minute, time.Hour, 5 * time.Second},
		"a rollout of 40 s":                        {40 * time.Second, 5 * time.Minute, time.Hour, 45 * time.Second},
		"one that never ends":                      {time.Hour, 5 * time.Minute, time.Hour, 5 * time.Minute},
		"no more queries may come on record":       {time.Hour, 5 * time.Minute, 90 * time.Second, 90 * time.Second},
		"not even those of the settle time":        {time.Hour, 5 * time.Minute, time.Second, 5 * time.Second},
		"the limit ends it during the settle time": {58 * time.Second, time.Minute, time.Hour, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				rec, err := history.Create(dir, history.NewClock(), history.Meta{})
				if err != nil {
					t.Fatal(err)
				}
				defer rec.Close(false)
				for i := range 200 { // DNS answers all the time
					rec.Query(history.Query{Target: history.Service, Mode: history.Fresh, Intended: time.Duration(i) * time.Second, Outcome: history.Answered})
				}
				o := &Observation{Options: Options{SettleLimit: c.limit}, most: c.most}
				o.Scenario.Settle = strict.Duration(5 * time.Second)
				o.Unsettled = func(_ scenarios.Scenario, _ history.History, now time.Duration) ([]string, time.Duration) {
					if now < c.over {
						return []string{"a rollout"}, 0
					}
					return nil, c.over
				}
				began := time.Now()
				o.settle(t.Context(), &recorder{Recorder: rec}, rec.Clock().Now())
				if took := time.Since(began); took < c.want || took > c.want+2*time.Second {
					t.Errorf("the record went on for %s, want %s", took, c.want)
				}
			})
		})
	}
}
