package run

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// forTests is a drill that only records.
func forTests(t *testing.T) *drill {
	t.Helper()
	rec, err := history.Create(t.TempDir(), history.NewClock(), history.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	return &drill{Recorder: rec, broken: make(chan error)}
}

// readerFor begins a fault of a second reader.
func readerFor(t *testing.T, d *drill, lasts time.Duration, count int) (*fault.Faults, *fault.Active) {
	t.Helper()
	faults := fault.New(d.Record)
	a, err := faults.Begin(fault.Fault{On: history.OnQueue, Name: "reader", Type: history.SecondReader, Count: count, For: strict.Duration(lasts)})
	if err != nil {
		t.Fatal(err)
	}
	return faults, a
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
			q := queueFaults{drill: forTests(t)}
			looks := 0
			look := func(context.Context) ([]history.Detail, error) {
				looks++
				if looks > 1 {
					return nil, nil
				}
				return slices.Repeat([]history.Detail{history.At(1)}, c.hits), nil
			}
			faults, a := readerFor(t, q.drill, time.Second, c.count)
			if err := q.recordHits(t.Context(), faults, a, look); err != nil {
				t.Error(err)
			}
			events := q.Events()
			if last := events[len(events)-1]; last.Kind != history.FaultEnded || last.FaultEnd() != c.want {
				t.Errorf("ended by %+v, want %q", last, c.want)
			}
			if hits := len(events) - 2; hits != c.recorded {
				t.Errorf("%d hits on record, want %d", hits, c.recorded)
			}
		})
	}
}

func TestALookAtTheQueueThatTheEndCutsShortIsNoError(t *testing.T) {
	q := queueFaults{drill: forTests(t)}
	look := func(ctx context.Context) ([]history.Detail, error) { <-ctx.Done(); return nil, ctx.Err() }
	faults, a := readerFor(t, q.drill, 50*time.Millisecond, 0)
	if err := q.recordHits(t.Context(), faults, a, look); err != nil {
		t.Error(err)
	}
	refused := errors.New("refused")
	faults, a = readerFor(t, q.drill, time.Hour, 0)
	if err := q.recordHits(t.Context(), faults, a, func(context.Context) ([]history.Detail, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("an error of the queue: %v", err)
	}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	if err := q.recordHits(interrupted, faults, a, look); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted drill: %v", err)
	}
}

func TestCallsToAQueueThatIsMissingAreHitsOnce(t *testing.T) {
	q := queueFaults{drill: forTests(t)}
	call := func(at time.Duration, reason string) {
		q.Record(history.NewSQSCall("", "ReceiveMessage", reason, history.At(at)))
	}
	call(1, "QueueDoesNotExist") // before it
	look := q.lookForRefusals(2)
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
