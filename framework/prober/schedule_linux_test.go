package prober

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
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
		{MaxFor - 1, MaxRate, int(MaxFor/time.Second) * MaxRate}, // the largest plan does not overflow
	} {
		if got := (schedule{c.rate}).due(c.elapsed); got != c.want {
			t.Errorf("due(%v) at %d/s = %d, want %d", c.elapsed, c.rate, got, c.want)
		}
	}
	for _, rate := range []int{1, 3, 7, 200, 500, 999, 1000, 5000, 99_999, MaxRate} {
		s := schedule{rate}
		for _, i := range []int{0, 1, 2, 10, 12_345} {
			at := s.intended(i)
			if s.due(at) != i+1 || s.due(at-1) != i {
				t.Errorf("at %d/s query %d is intended at %v, but due there are %d and just before %d", rate, i, at, s.due(at), s.due(at-1))
			}
		}
	}
}

func TestWakeUpsAreOnTimeOrOnTheTick(t *testing.T) {
	for _, c := range []struct {
		rate, query int
		want        time.Duration
	}{
		{3, 1, 333_333_334},
		{1000, 7, 7 * time.Millisecond},
		{1500, 1, time.Millisecond},
		{1500, 3, 2 * time.Millisecond},
		{20_000, 1, time.Millisecond},
		{20_000, 20, time.Millisecond},
		{20_000, 21, 2 * time.Millisecond},
	} {
		if got := (schedule{c.rate}).wake(c.query); got != c.want {
			t.Errorf("at %d/s query %d wakes at %v, want %v", c.rate, c.query, got, c.want)
		}
	}
}

// trace is a sender that only notes what it was given.
type trace struct {
	loop     *loop
	progress *progress
	inSend   func(i int)
	sent     []time.Duration // intended times
	latest   time.Duration   // how far behind the latest query left
	most     int             // in one tick
}

func (tr *trace) send(from, to int) int {
	tr.most = max(tr.most, to-from)
	for i := from; i < to; i++ {
		at := tr.progress.intended(i)
		tr.sent, tr.latest = append(tr.sent, at), max(tr.latest, tr.loop.clock.Now()-tr.loop.base-at)
		tr.inSend(i)
	}
	return to
}

func (tr *trace) expire(time.Duration) {}
func (tr *trace) waiting() int         { return 0 }
func (tr *trace) close()               {}

// play runs one stream's schedule in fake time.
func play(rate int, total time.Duration, inSend func(i int)) (*trace, []history.Query) {
	l := &loop{clock: history.NewClock()}
	s := QueryStream{Rate: rate}
	ledger := newLedger([]QueryStream{s}, nil)
	tr := &trace{loop: l, inSend: inSend}
	tr.progress = newProgress(s, total, tr, ledger.accounts[0])
	for tr.progress.next < tr.progress.count {
		if !l.advance(tr.progress) {
			now := l.clock.Now()
			time.Sleep(l.wake([]*progress{tr.progress}, now) - now)
		}
	}
	return tr, ledger.accounts[0].settled
}

func TestEveryQueryLeavesInItsTime(t *testing.T) {
	for _, c := range []struct {
		rate    int
		allowed time.Duration
	}{{1, 0}, {200, 0}, {1000, 0}, {1500, tick}, {5000, tick}, {20_000, tick}, {MaxRate, tick}} {
		synctest.Test(t, func(t *testing.T) {
			tr, unsent := play(c.rate, 3*time.Second, func(int) {})
			if len(tr.sent) != 3*c.rate || len(unsent) != 0 {
				t.Errorf("%d/s for 3s: %d sent and %d unsent", c.rate, len(tr.sent), len(unsent))
			}
			if tr.latest > c.allowed {
				t.Errorf("%d/s: a query left %v late, want %v at most", c.rate, tr.latest, c.allowed)
			}
		})
	}
}

func TestWhatCouldNotBeSentInTimeIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, unsent := play(1000, time.Second, func(i int) {
			if i == 200 {
				time.Sleep(500 * time.Millisecond) // the send path is blocked
			}
		})
		// After 500 ms queries 201 to 700 are overdue; those from 450 on by 250 ms or less.
		if len(unsent) != 249 || unsent[0].Intended != 201*time.Millisecond || unsent[248].Intended != 449*time.Millisecond {
			t.Errorf("%d unsent, from %v to %v", len(unsent), unsent[0].Intended, unsent[len(unsent)-1].Intended)
		}
		if len(tr.sent)+len(unsent) != 1000 {
			t.Errorf("%d sent and %d unsent are not the 1000 of the schedule", len(tr.sent), len(unsent))
		}
		if tr.latest > Tolerance {
			t.Errorf("a query left %v late", tr.latest)
		}
		if tr.most > 1+catchUp {
			t.Errorf("%d queries left at once to catch up, want %d in a tick", tr.most, 1+catchUp)
		}
	})
}
