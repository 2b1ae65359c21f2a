package run

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// forTests is a runner that only records.
func forTests(t *testing.T) *runner {
	t.Helper()
	rec, err := history.Create(t.TempDir(), history.NewClock(), history.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	return &runner{rec: rec, broken: make(chan error)}
}

func TestAFaultOfTheQueueEnds(t *testing.T) {
	for name, c := range map[string]struct {
		count    int
		hits     int // found at the first look
		want     string
		recorded int
	}{
		"with its last hit":      {count: 2, hits: 2, want: "count", recorded: 2},
		"when its time is over":  {count: 2, hits: 1, want: "time", recorded: 1},
		"without having hit":     {want: "time"},
		"after any number of it": {hits: 3, want: "time", recorded: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := forTests(t)
			looks := 0
			look := func(context.Context) ([]history.Detail, error) {
				looks++
				if looks > 1 {
					return nil, nil
				}
				return slices.Repeat([]history.Detail{history.At(1)}, c.hits), nil
			}
			f := scenarios.Fault{Name: "reader", Type: history.SecondReader, Count: c.count, For: strict.Duration(time.Second)}
			why, err := r.recordQueueHits(t.Context(), f, r.rec.Clock().Now()+f.For.D(), look)
			if err != nil || why != c.want {
				t.Errorf("ended by %q, %v, want %q", why, err, c.want)
			}
			if hits := len(r.rec.Events()); hits != c.recorded {
				t.Errorf("%d hits on record, want %d", hits, c.recorded)
			}
		})
	}
}

func TestALookAtTheQueueThatTheEndCutsShortIsNoError(t *testing.T) {
	r := forTests(t)
	look := func(ctx context.Context) ([]history.Detail, error) { <-ctx.Done(); return nil, ctx.Err() }
	if why, err := r.recordQueueHits(t.Context(), scenarios.Fault{}, r.rec.Clock().Now()+50*time.Millisecond, look); why != "time" || err != nil {
		t.Errorf("ended by %q, %v", why, err)
	}
	refused := errors.New("refused")
	if _, err := r.recordQueueHits(t.Context(), scenarios.Fault{}, time.Hour, func(context.Context) ([]history.Detail, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("an error of the queue: %v", err)
	}
}

func TestCallsToAQueueThatIsMissingAreHitsOnce(t *testing.T) {
	r := forTests(t)
	call := func(at time.Duration, reason string) {
		r.rec.Record(history.NewSQSCall("", "ReceiveMessage", reason, history.At(at)))
	}
	call(1, "QueueDoesNotExist") // before it
	look := r.lookForRefusals(2)
	call(2, "QueueDoesNotExist")
	call(3, "AWS.SimpleQueueService.NonExistentQueue")
	call(4, "")
	call(5, "ThrottlingException")
	for i, want := range []int{2, 0} {
		if hits, err := look(t.Context()); err != nil || len(hits) != want {
			t.Errorf("look %d: %d hits, %v, want %d", i+1, len(hits), err, want)
		}
	}
}
