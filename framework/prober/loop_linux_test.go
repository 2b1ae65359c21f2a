package prober

import (
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/spotdrill/spotdrill/framework/history"
)

// A prober that got no processor when the answer came knows all the same when it
// did, and that it was in time.
func TestAnAnswerCameWhenTheKernelTookItIn(t *testing.T) {
	const timeout, stall = 400 * time.Millisecond, 800 * time.Millisecond
	for _, c := range []struct {
		name   string
		reply  func(*dns.Msg) *dns.Msg
		settle func(q history.Query) bool
	}{
		{"in time", answer, func(q history.Query) bool {
			return q.Outcome == history.Answered && q.Done-q.Sent < timeout
		}},
		{"too late", func(q *dns.Msg) *dns.Msg { time.Sleep(600 * time.Millisecond); return answer(q) }, func(q history.Query) bool {
			return q.Outcome == history.Timeout && q.Done-q.Sent >= timeout
		}},
	} {
		for _, ports := range []int{0, 1} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				server := startServer(t, c.reply)
				s := freshStream(server.addr, 1)
				if ports > 0 {
					s = fixedStream(server.addr, 1, ports)
				}
				l, err := newLoop(history.NewClock(), 64)
				if err != nil {
					t.Fatal(err)
				}
				defer l.close()
				account := newLedger([]QueryStream{s}, func(history.Query) {}).accounts[0]
				sender, err := newSender(&task{l, s, timeout, account}, anyPort())
				if err != nil {
					t.Fatal(err)
				}
				defer sender.close()
				l.base = l.clock.Now()
				sender.send(0, 1)
				time.Sleep(stall)
				l.receive()
				sender.expire(l.now)
				if len(account.settled) != 1 || !c.settle(account.settled[0]) {
					t.Errorf("%s: %+v", s.Mode, account.settled)
				}
			})
		}
	}
}

// What waits for a sink that takes nothing is bounded. A run with holes in its
// record would prove nothing: it ends.
func TestARecordThatIsNotWrittenFastEnoughEndsTheRun(t *testing.T) {
	t.Parallel()
	l, err := newLoop(history.NewClock(), 64)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	s := fixedStream(startServer(t, answer).addr, 1000, 1)
	released, taken := make(chan struct{}), 0
	ledger := newLedger([]QueryStream{s}, func(history.Query) { <-released; taken++ })
	ledger.room = 200
	sender, err := newSender(&task{l, s, time.Second, ledger.accounts[0]}, anyPort())
	if err != nil {
		t.Fatal(err)
	}
	defer sender.close()
	settled, written := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(written)
		ledger.write(settled)
	}()
	began := time.Now()
	l.base = l.clock.Now()
	err = l.run(t.Context(), []*progress{newProgress(s, 20*time.Second, sender, ledger.accounts[0])})
	if err == nil || !strings.Contains(err.Error(), "could not be written as fast") || time.Since(began) > 10*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	close(released)
	close(settled)
	<-written
	if taken > 200 {
		t.Errorf("the sink got %d queries, and there was room for 200", taken)
	}
}
