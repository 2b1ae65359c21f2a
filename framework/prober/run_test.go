package prober

import (
	"context"
	"maps"
	"math"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/history"
)

func TestEveryOutcomeIsTold(t *testing.T) {
	code := func(rcode int) func(*dns.Msg) *dns.Msg {
		return func(q *dns.Msg) *dns.Msg { return new(dns.Msg).SetRcode(q, rcode) }
	}
	changed := func(change func(*dns.Msg)) func(*dns.Msg) *dns.Msg {
		return func(q *dns.Msg) *dns.Msg {
			m := answer(q)
			change(m)
			return m
		}
	}
	for _, c := range []struct {
		want  history.Outcome
		reply func(*dns.Msg) *dns.Msg // nil where nothing listens
	}{
		{history.Answered, answer},
		{history.Empty, code(dns.RcodeSuccess)},
		{history.NXDomain, code(dns.RcodeNameError)},
		{history.ServFail, code(dns.RcodeServerFailure)},
		{history.Refused, code(dns.RcodeRefused)},
		{history.OtherCode, code(dns.RcodeNotImplemented)},
		{history.Truncated, changed(func(m *dns.Msg) { m.Truncated = true })},
		{history.Timeout, silence},
		{history.ICMP, nil},
		{history.Mismatch, changed(func(m *dns.Msg) { m.Id++ })},
		{history.Mismatch, changed(func(m *dns.Msg) { m.Question[0].Name = "b.example." })},
	} {
		t.Run(string(c.want), func(t *testing.T) {
			t.Parallel()
			server := closedPort(t)
			if c.reply != nil {
				server = startServer(t, c.reply).addr
			}
			plan := Plan{Streams: everyMode(server, 100), For: 100 * time.Millisecond}
			if c.want == history.Timeout || c.want == history.Mismatch {
				plan.Timeout = 300 * time.Millisecond
			}
			summary, _ := run(t, t.Context(), plan)
			for _, s := range summary.Streams {
				want := c.want
				if want == history.Mismatch && s.Mode == history.Kept && s.Outcomes[history.Timeout] > 0 {
					want = history.Timeout // a stream of answers goes on after one with an unknown id
				}
				wantOnly(t, s.Figures, want)
			}
		})
	}
}

// everyMode asks a server in each.
func everyMode(server netip.AddrPort, rate int) []QueryStream {
	connect, kept := freshStream(server, rate), fixedStream(server, rate, 2)
	connect.Mode, kept.Mode = history.Connect, history.Kept
	return []QueryStream{freshStream(server, rate), fixedStream(server, rate, 2), connect, kept}
}

func TestQuestionsTakeTurns(t *testing.T) {
	t.Parallel()
	server := startServer(t, func(q *dns.Msg) *dns.Msg {
		m := answer(q)
		switch q.Question[0].Name {
		case "missing.example.":
			return new(dns.Msg).SetRcode(q, dns.RcodeNameError)
		case "large.example.":
			m.Truncated = q.IsEdns0() == nil || q.IsEdns0().UDPSize() != 2000
			for len(m.Answer) < 60 {
				m.Answer = append(m.Answer, m.Answer[0])
			}
		}
		return m
	})
	for _, c := range []struct {
		buffer uint16
		want   map[history.Outcome]int
	}{
		{0, map[history.Outcome]int{history.Answered: 20, history.NXDomain: 20, history.Truncated: 20}},
		{2000, map[history.Outcome]int{history.Answered: 40, history.NXDomain: 20}},
	} {
		streams := everyMode(server.addr, 60)
		for i := range streams {
			streams[i].BufferSize = c.buffer
			streams[i].Questions = []Question{{"a.example.", dns.TypeA}, {"missing.example.", dns.TypeA}, {"large.example.", dns.TypeA}}
		}
		summary, _ := run(t, t.Context(), Plan{Streams: streams, For: time.Second})
		for _, s := range summary.Streams {
			if s.Unsent == 0 && !maps.Equal(s.Outcomes, c.want) {
				t.Errorf("%s with a buffer of %d: got %v, want %v", s.Mode, c.buffer, s.Outcomes, c.want)
			}
		}
	}
}

func TestIPv6IsAskedLikeIPv4(t *testing.T) {
	t.Parallel()
	conn, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		t.Skipf("this machine has no IPv6 loopback: %v", err)
	}
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) { _ = w.WriteMsg(answer(q)) })}
	go func() { _ = server.ActivateAndServe() }()
	at := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	closed := netip.AddrPortFrom(at.Addr(), 1)
	for want, server := range map[history.Outcome]netip.AddrPort{history.Answered: at, history.ICMP: closed} {
		summary, _ := run(t, t.Context(), Plan{Streams: []QueryStream{freshStream(server, 50), fixedStream(server, 50, 2)}, For: 200 * time.Millisecond})
		wantOnly(t, summary.Figures, want)
	}
	_ = conn.Close()
}

func TestAKeptConnectionThatBreaksIsMadeAgain(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	var accepted atomic.Int64
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			c := &dns.Conn{Conn: conn}
			go func() { // ten answers, then the end
				defer conn.Close()
				for range 10 {
					q, err := c.ReadMsg()
					if err != nil {
						return
					}
					_ = c.WriteMsg(answer(q))
				}
			}()
		}
	}()
	s := fixedStream(listener.Addr().(*net.TCPAddr).AddrPort(), 100, 1)
	s.Mode = history.Kept
	summary, _ := run(t, t.Context(), Plan{Streams: []QueryStream{s}, For: time.Second})
	// Until its end has come, a connection is asked in vain.
	if summary.Outcomes[history.Answered] < 40 || accepted.Load() < 4 || summary.Outcomes[history.Timeout] > 0 {
		t.Errorf("%d connections, %v", accepted.Load(), summary.Outcomes)
	}
}

func TestLoadIsOpenLoop(t *testing.T) {
	t.Parallel()
	server := startServer(t, silence)
	began := time.Now()
	summary, queries := run(t, t.Context(), Plan{
		Streams: []QueryStream{freshStream(server.addr, 200), fixedStream(server.addr, 100, 8)},
		Timeout: 500 * time.Millisecond, For: time.Second,
	})
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v, want 1s of sending and 0.5s of waiting", took)
	}
	for i, want := range []int{200, 100} {
		s := summary.Streams[i]
		if s.Asked != want {
			t.Errorf("%s: asked %d queries of a silent server, want %d", s.Mode, s.Asked, want)
		}
		wantOnly(t, s.Figures, history.Timeout)
	}
	for _, mode := range []history.Mode{history.Fresh, history.Fixed} {
		stream := history.QueriesWithin(queries, 0, 1<<62, history.Service, mode)
		left := 0 // while the first query was waiting; a closed loop would send none
		for _, q := range stream[1:] {
			if q.Sent < stream[0].Done {
				left++
			}
		}
		if left < 10 {
			t.Errorf("%s: %d queries left while the first one was waiting", mode, left)
		}
	}
}

func TestWindowsHaveTheEdgesOfTheOutage(t *testing.T) {
	t.Parallel()
	clock := history.NewClock()
	const from, to = 400 * time.Millisecond, 900 * time.Millisecond
	var dropped atomic.Int64
	server := startServer(t, func(q *dns.Msg) *dns.Msg {
		if now := clock.Now(); now >= from && now < to {
			dropped.Add(1)
			return nil
		}
		return answer(q)
	})
	summary, queries := runOn(t, t.Context(), Plan{
		Streams: []QueryStream{freshStream(server.addr, 1000), fixedStream(server.addr, 500, 8)},
		For:     1500 * time.Millisecond,
	}, clock)
	if lost := summary.Lost(); lost != int(dropped.Load()) || lost != summary.Outcomes[history.Timeout] {
		t.Errorf("the server dropped %d queries, got %v", dropped.Load(), summary.Outcomes)
	}
	// An edge is as exact as the prober was on time, and as the server was.
	allowed := 10*time.Millisecond + summary.LateMax + summary.Latency.P99
	for _, mode := range []history.Mode{history.Fresh, history.Fixed} {
		windows := history.Windows(history.QueriesWithin(queries, 0, 1<<62, history.Service, mode), history.Quiet)
		if len(windows) != 1 {
			t.Errorf("%s: got %d windows, want 1: %+v", mode, len(windows), windows)
			continue
		}
		w := windows[0]
		t.Logf("%s: from %v off by %v, to %v off by %v (allowed %v)", mode, w.From, w.From-from, w.To, w.To-to, allowed)
		if (w.From-from).Abs() > allowed || (w.To-to).Abs() > allowed || w.Open {
			t.Errorf("%s: got %+v, want %v to %v, to within %v", mode, w, from, to, allowed)
		}
	}
}

func TestNothingIsInventedInQuiet(t *testing.T) {
	server := startServer(t, answer)
	control := freshStream(server.addr, 200)
	control.Target = history.Control
	summary, queries := run(t, t.Context(), Plan{
		Streams: []QueryStream{freshStream(server.addr, 1000), fixedStream(server.addr, 500, 8), control},
		For:     2 * time.Second,
	})
	if summary.Asked != 3400 {
		t.Errorf("asked %d, want 3400", summary.Asked)
	}
	for _, s := range summary.Streams {
		wantOnly(t, s.Figures, history.Answered)
		if w := history.Windows(history.QueriesWithin(queries, 0, 1<<62, s.Target, s.Mode), history.Quiet); len(w) > 0 {
			t.Errorf("%s/%s: invented %+v", s.Target, s.Mode, w)
		}
	}
	l := summary.Latency
	if l.P50 <= 0 || l.P50 > l.P90 || l.P90 > l.P99 || l.P99 > l.P999 || l.P999 > l.Max {
		t.Errorf("percentiles are out of order: %+v", l)
	}
	t.Logf("late p99 %v max %v, latency %+v, unsent %d", summary.LateP99, summary.LateMax, l, summary.Unsent)
}

func TestSourcePorts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stream func(s *dnsServer) QueryStream
		check  func(t *testing.T, ports map[int]int, sent int)
	}{
		{
			func(s *dnsServer) QueryStream { return freshStream(s.addr, 500) },
			func(t *testing.T, ports map[int]int, sent int) {
				if len(ports) < sent*9/10 { // the kernel may choose a closed socket's port again
					t.Errorf("fresh: %d ports for %d queries", len(ports), sent)
				}
			},
		},
		{
			func(s *dnsServer) QueryStream { return fixedStream(s.addr, 400, 8) },
			func(t *testing.T, ports map[int]int, sent int) {
				if len(ports) != 8 {
					t.Errorf("fixed: %d ports, want 8", len(ports))
				}
				for port, n := range ports {
					if math.Abs(float64(n-sent/8)) > 20 {
						t.Errorf("fixed: port %d sent %d of %d queries, want an eighth", port, n, sent)
					}
				}
			},
		},
	} {
		server := startServer(t, answer)
		s := c.stream(server)
		summary, queries := run(t, t.Context(), Plan{Streams: []QueryStream{s}, For: 500 * time.Millisecond})
		c.check(t, server.ports(), summary.Asked-summary.Unsent)
		for _, q := range queries {
			if q.Outcome != history.Unsent && server.ports()[q.Port] == 0 {
				t.Errorf("%s: the server got nothing from recorded port %d", s.Mode, q.Port)
			}
		}
	}
}

func TestAnAnswerThatDoesNotFitIsNoEnd(t *testing.T) {
	t.Parallel()
	client, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	go func() { // a server that sends a forged answer ahead of the true one
		buf := make([]byte, maxAnswer)
		for {
			n, from, err := client.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			var q dns.Msg
			_ = q.Unpack(buf[:n])
			for _, forged := range []uint16{1, 0} {
				m := answer(&q)
				m.Id += forged
				b, _ := m.Pack()
				_, _ = client.WriteToUDPAddrPort(b, from)
			}
		}
	}()
	server := client.LocalAddr().(*net.UDPAddr).AddrPort()
	summary, _ := run(t, t.Context(), Plan{
		Streams: []QueryStream{freshStream(server, 100), fixedStream(server, 100, 2)},
		For:     300 * time.Millisecond,
	})
	wantOnly(t, summary.Figures, history.Answered)
}

func TestStopEndsTheSendingAndWaitsForAnswers(t *testing.T) {
	t.Parallel()
	server := startServer(t, func(q *dns.Msg) *dns.Msg {
		time.Sleep(200 * time.Millisecond)
		return answer(q)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	summary, _ := run(t, ctx, Plan{Streams: []QueryStream{freshStream(server.addr, 200), fixedStream(server.addr, 200, 2)}, For: time.Minute})
	wantOnly(t, summary.Figures, history.Answered)
	for _, s := range summary.Streams {
		if s.Asked < 60 || s.Asked > 1000 {
			t.Errorf("%s: asked %d in 0.4s, want about 80", s.Mode, s.Asked)
		}
	}
}

func TestASlowSinkDelaysNothing(t *testing.T) {
	t.Parallel()
	server := startServer(t, answer)
	clock := history.NewClock()
	var released time.Duration
	settled := 0 // while the sink was blocked
	plan := Plan{Streams: []QueryStream{fixedStream(server.addr, 200, 1)}, For: 500 * time.Millisecond}
	summary, err := Run(t.Context(), plan, clock, func(q history.Query) {
		if released == 0 {
			time.Sleep(800 * time.Millisecond)
			released = clock.Now()
		} else if q.Target == history.Service && q.Done < released {
			settled++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if summary.Asked != 100 || settled < 10 {
		t.Errorf("asked %d, settled %d while the sink was blocked", summary.Asked, settled)
	}
}

func TestWhyQueriesWereNotSentIsTold(t *testing.T) {
	ledger := newLedger([]QueryStream{{}}, func(history.Query) {})
	a := ledger.accounts[0]
	a.failed(history.Query{Intended: 1}, 2, unix.EMFILE)
	a.failed(history.Query{Intended: 1}, 2, errLate)
	if got := written(ledger); got.Unsent != 2 || got.SocketErrors != 1 || !strings.Contains(got.Behind, "too many open files") {
		t.Errorf("got %+v", got.Figures)
	}
}
