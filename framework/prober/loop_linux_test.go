package prober

import (
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
				l, err := newLoop(history.NewClock())
				if err != nil {
					t.Fatal(err)
				}
				defer l.close()
				account := newLedger([]Stream{s}, func(history.Query) {}).accounts[0]
				sender, err := newSender(l, s, timeout, account)
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
