package prober

import (
	"net"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/history"
)

func TestIDsGoBackToTheirQueries(t *testing.T) {
	for _, factor := range []uint16{1, 3, 0x8001, 0xffff, 40503} {
		p := port{factor: factor, inverse: inverse(factor), shift: 77, flights: make([]flight, batchSize), asked: make([]*question, 1)}
		p.task = &task{loop: &loop{}, stream: QueryStream{Rate: 1}}
		p.next, p.oldest, p.first = 1<<32-5, 1<<32-5, 1<<32-5 // numbers may wrap
		for i := range 3000 {
			p.took(i, 0)
		}
		for n := p.oldest; n != p.next; n++ {
			if p.of(p.id(n)) != p.flights.at(n) {
				t.Fatalf("factor %d: the id of query %d is another's", factor, n)
			}
		}
		if f := p.of(p.id(p.next)); f != nil {
			t.Errorf("factor %d: the next query's id is known already: %+v", factor, f)
		}
		if f := p.of(p.id(p.oldest - 1)); f != nil {
			t.Errorf("factor %d: a forgotten query's id is known: %+v", factor, f)
		}
	}
}

func TestAnswersThatTheKernelDroppedAreCounted(t *testing.T) {
	server, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	l, err := newLoop(history.NewClock(), 64)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	s := fixedStream(server.LocalAddr().(*net.UDPAddr).AddrPort(), 1, 1)
	ledger := newLedger([]QueryStream{s}, func(history.Query) {})
	q, err := newQuestion(s.Questions[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	p, err := openPort(&task{l, s, time.Second, ledger.accounts[0]}, []*question{q})
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	_ = unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4096)
	answer := func(n int) {
		for range n {
			_, _ = server.WriteTo(make([]byte, 500), &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: p.number})
		}
	}
	answer(100)
	l.receive()
	answer(1) // the kernel reports drops with the next message that it had room for
	l.receive()
	if got := written(ledger); got.Dropped < 10 || got.Dropped > 100 || got.Behind == "" {
		t.Errorf("%d answers were dropped: %q", got.Dropped, got.Behind)
	}
}

func TestLateAnswersOnFixedPortsAreNoMismatch(t *testing.T) {
	t.Parallel()
	began := time.Now()
	server := startServer(t, func(q *dns.Msg) *dns.Msg {
		if time.Since(began) < 500*time.Millisecond {
			time.Sleep(600 * time.Millisecond)
		}
		return answer(q)
	})
	summary, _ := run(t, t.Context(), Plan{
		Streams: []QueryStream{fixedStream(server.addr, 200, 2)},
		Timeout: 300 * time.Millisecond, For: 1500 * time.Millisecond,
	})
	late := summary.Outcomes[history.Timeout]
	if late == 0 || late+summary.Outcomes[history.Answered]+summary.Unsent != summary.Asked {
		t.Errorf("got %v, want only timeouts and answers", summary.Outcomes)
	}
	if summary.Ignored < late/2 || summary.Ignored > late {
		t.Errorf("%d queries timed out and were answered later, %d answers were ignored", late, summary.Ignored)
	}
}

func TestAServerThatGoesAndComesBackIsOneWindow(t *testing.T) {
	t.Parallel()
	at := net.UDPAddrFromAddrPort(closedPort(t))
	conn := listenAt(t, at)
	time.AfterFunc(300*time.Millisecond, func() {
		_ = conn.Close()
		time.AfterFunc(300*time.Millisecond, func() { listenAt(t, at) })
	})
	summary, queries := run(t, t.Context(), Plan{Streams: []QueryStream{fixedStream(at.AddrPort(), 1000, 2)}, For: time.Second})
	if icmp := summary.Outcomes[history.ICMP]; icmp < 10 || icmp > 500 {
		t.Errorf("got %v, want about 300 icmp", summary.Outcomes)
	}
	// Queries that lay in the server's socket when it was closed are timeouts.
	stream := history.QueriesWithin(queries, 0, 1<<62, history.Service, history.Fixed)
	if w := history.Windows(stream, history.Quiet); len(w) != 1 || w[0].Lost < w[0].Asked/2 {
		t.Errorf("want one window, most of it lost: %+v", w)
	}
}

// listenAt answers at an address until the test ends or its socket is closed.
func listenAt(t *testing.T, at *net.UDPAddr) *net.UDPConn {
	conn, err := net.ListenUDP("udp", at)
	if err != nil {
		t.Error(err)
		return nil
	}
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) { _ = w.WriteMsg(answer(q)) })}
	go func() { _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Host unreachable comes seconds after the query that it is about, when that
// has timed out and newer ones are doing fine.
func TestALateICMPErrorOnAFixedPortBlamesNoNewerQuery(t *testing.T) {
	for _, c := range []struct {
		name           string
		reportedToRead bool // or to the write of the newer query
	}{{"reported to a write", false}, {"reported to a read", true}} {
		t.Run(c.name, func(t *testing.T) {
			server := closedPort(t)
			clock := history.NewClock()
			l, err := newLoop(clock, 64)
			if err != nil {
				t.Fatal(err)
			}
			defer l.close()
			s := fixedStream(server, 1, 1)
			ledger := newLedger([]QueryStream{s}, func(history.Query) {})
			q, err := newQuestion(Question{"a.example.", dns.TypeA}, 0)
			if err != nil {
				t.Fatal(err)
			}
			f, err := newFixedPorts(&task{l, s, time.Second, ledger.accounts[0]}, []*question{q})
			if err != nil {
				t.Fatal(err)
			}
			defer f.close()
			for range 3 {
				l.out.put(0, q.wire, 4711) // no query of this id is under way
				_, _ = l.out.send(f.ports[0].fd, 0, 1)
			}
			time.Sleep(50 * time.Millisecond)
			listenAt(t, net.UDPAddrFromAddrPort(server))
			if c.reportedToRead {
				l.receive()
			}
			l.base = clock.Now()
			if err := l.run(t.Context(), []*progress{newProgress(s, time.Second, f, ledger.accounts[0])}); err != nil {
				t.Fatal(err)
			}
			if got := written(ledger).Outcomes; got[history.Answered] != 1 {
				t.Errorf("the newer query was %v, want answered", got)
			}
		})
	}
}

func TestAQueryOfAStalledBatchHasLeftByItsEnd(t *testing.T) {
	const began = time.Second
	for took, want := range map[time.Duration][2]time.Duration{
		400 * time.Microsecond: {began, began + 200*time.Microsecond},
		2 * time.Millisecond:   {began + 2*time.Millisecond, began + 2*time.Millisecond},
	} {
		for i := range 2 {
			if got := leftAt(began, began+took, i, 2); got != want[i] {
				t.Errorf("query %d of a batch that took %v: %v", i, took, got)
			}
		}
	}
}
