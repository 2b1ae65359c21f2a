package prober

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestScheduleIsAPureFunctionOfElapsedTime(t *testing.T) {
	for _, c := range []struct {
		elapsed time.Duration
		rate    int
		want    int
	}{
		{-1, 1000, 0},
		{0, 1000, 1},
		{time.Millisecond - 1, 1000, 1},
		{time.Millisecond, 1000, 2},
		{time.Second - 1, 1000, 1000},
		{333_333_333, 3, 1},
		{333_333_334, 3, 2},
		{time.Second - 1, 1, 1},
		{MaxFor - 1, MaxRate, 180_000_000}, // the largest plan does not overflow
	} {
		if got := due(c.elapsed, c.rate); got != c.want {
			t.Errorf("due(%v, %d/s) = %d, want %d", c.elapsed, c.rate, got, c.want)
		}
	}
	for _, rate := range []int{1, 3, 7, 200, 500, 999, 1000, 5000, 99_999, MaxRate} {
		for _, i := range []int{0, 1, 2, 10, 12_345} {
			at := intended(i, rate)
			if due(at, rate) != i+1 || due(at-1, rate) != i {
				t.Errorf("at %d/s query %d is intended at %v, but due there are %d and just before %d", rate, i, at, due(at, rate), due(at-1, rate))
			}
		}
	}
}

// trace runs a pacer in fake time and records what it did.
type trace struct {
	sent, skipped []time.Duration // intended times
	latest        time.Duration   // how far behind the latest query left
}

func runPacer(ctx context.Context, rate int, total time.Duration, inSend func(i int)) trace {
	var tr trace
	start := time.Now()
	now := func() time.Duration { return time.Since(start) }
	pacer{
		rate: rate, total: total, now: now,
		send: func(i int, at time.Duration) {
			tr.sent = append(tr.sent, at)
			tr.latest = max(tr.latest, now()-at)
			inSend(i)
		},
		skip: func(_ int, at time.Duration) { tr.skipped = append(tr.skipped, at) },
	}.run(ctx)
	return tr
}

func TestPacerSendsEveryQueryInItsTime(t *testing.T) {
	for _, c := range []struct {
		rate    int
		allowed time.Duration
	}{{1, 0}, {200, 0}, {1000, 0}, {5000, tick}, {20_000, tick}} {
		synctest.Test(t, func(t *testing.T) {
			tr := runPacer(t.Context(), c.rate, 3*time.Second, func(int) {})
			if len(tr.sent) != 3*c.rate || len(tr.skipped) != 0 {
				t.Errorf("%d/s for 3s: %d sent and %d skipped", c.rate, len(tr.sent), len(tr.skipped))
			}
			if tr.latest > c.allowed {
				t.Errorf("%d/s: a query left %v late, want %v at most", c.rate, tr.latest, c.allowed)
			}
		})
	}
}

func TestPacerReportsWhatItCouldNotSendInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := runPacer(t.Context(), 1000, time.Second, func(i int) {
			if i == 200 {
				time.Sleep(500 * time.Millisecond) // the send path is blocked
			}
		})
		// After 500 ms queries 201 to 700 are overdue; those from 450 on by 250 ms or less.
		if len(tr.skipped) != 249 || tr.skipped[0] != 201*time.Millisecond || tr.skipped[248] != 449*time.Millisecond {
			t.Errorf("skipped %d queries: %v", len(tr.skipped), tr.skipped)
		}
		if len(tr.sent)+len(tr.skipped) != 1000 {
			t.Errorf("%d sent and %d skipped are not the 1000 of the schedule", len(tr.sent), len(tr.skipped))
		}
		if tr.latest > Tolerance {
			t.Errorf("a query left %v late", tr.latest)
		}
	})
}

func TestPacerStopsWithItsContextButOwnsUpToWhatWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond+1, cancel)
		tr := runPacer(ctx, 1000, time.Hour, func(i int) {
			if i == 100 {
				time.Sleep(500 * time.Millisecond)
			}
		})
		// Stopped while blocked until 600 ms: 601 queries were due by then.
		if len(tr.sent)+len(tr.skipped) != 601 || len(tr.skipped) != 249 {
			t.Errorf("%d sent and %d skipped of 601 due", len(tr.sent), len(tr.skipped))
		}
	})
}
