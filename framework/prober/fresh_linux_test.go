package prober

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/history"
)

// newFresh asks a server from fresh ports, in no hurry.
func newFresh(t *testing.T, server netip.AddrPort) (*freshPorts, *ledger) {
	t.Helper()
	l, err := newLoop(history.NewClock(), 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	s := freshStream(server, 1000)
	ledger := newLedger([]QueryStream{s}, func(history.Query) {})
	asked, err := newQuestions(s)
	if err != nil {
		t.Fatal(err)
	}
	f := newFreshPorts(&task{l, s, time.Second, ledger.accounts[0]}, asked, anyPort())
	t.Cleanup(f.close)
	return f, ledger
}

func TestPortsComeRoundInTurn(t *testing.T) {
	turns := newTurns()
	round := func(began time.Duration) map[int]bool {
		seen := map[int]bool{}
		for range freshCount {
			port := turns.next(began)
			if port < firstFresh || port > 65535 {
				t.Fatalf("port %d is out of range", port)
			}
			seen[port] = true
		}
		return seen
	}
	for _, c := range []struct {
		began time.Duration
		again bool
	}{{0, false}, {29 * time.Second, true}, {58 * time.Second, true}, {88 * time.Second, false}} {
		if n := len(round(c.began)); n != freshCount {
			t.Errorf("%d ports in a round, want %d", n, freshCount)
		}
		if turns.again != c.again {
			t.Errorf("the round from %v: used again too early: %t, want %t", c.began, turns.again, c.again)
		}
	}
}

func TestQueriesFromPortsThatAreNotFreshAreCounted(t *testing.T) {
	f, ledger := newFresh(t, startServer(t, answer).addr)
	f.loop.base = f.loop.clock.Now()
	now := f.loop.base
	for place, before := range map[int]time.Duration{1: time.Second, 2: f.memory - time.Second, 3: f.memory + time.Second} {
		f.sources[place].turns, f.sources[place].last = 1, now-before
	}
	for f.taken = 0; f.taken < 5; {
		f.send(0, 1) // a port that another process has is passed over
	}
	if reused := written(ledger).Reused; reused > 2 || reused == 0 {
		t.Errorf("%d of 5 queries count as sent from used ports, want two", reused)
	}
}

// newRing asks a server from so many fresh ports that no other process has, and whose
// sockets are kept.
func newRing(t *testing.T, server netip.AddrPort, ports int) (*freshPorts, *ledger) {
	t.Helper()
	f, ledger := newFresh(t, server)
	f.ring.ports, f.ring.kept = ports, ports
	f.sources = f.sources[:ports]
	f.ring.first = f.ring.first/unkept*unkept + unkept - firstFresh%unkept + 1 // none of them is unkept
	for place := 0; place < ports; place++ {
		if f.openSocket(place) != nil {
			f.close()
			f.ring.first, place = f.ring.first+unkept, -1
		}
	}
	f.loop.base = f.loop.clock.Now()
	return f, ledger
}

// settleAll waits for the queries under way.
func settleAll(t *testing.T, f *freshPorts) {
	t.Helper()
	for begin := time.Now(); f.waiting() > 0; time.Sleep(time.Millisecond) {
		f.loop.receive()
		f.expire(f.loop.now)
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("%d queries are not settled", f.waiting())
		}
	}
}

func TestAKeptSocketHasItsNextTurnFromTheSamePort(t *testing.T) {
	server := startServer(t, answer)
	f, ledger := newRing(t, server.addr, 4)
	for range 3 {
		f.send(0, 4)
		settleAll(t, f)
	}
	if got := written(ledger).Outcomes; got[history.Answered] != 12 {
		t.Errorf("got %v", got)
	}
	if ports := server.ports(); len(ports) != 4 {
		t.Errorf("the server saw %v, want 4 ports", ports)
	}
}

// A port must not take a turn while its query waits for an answer.
func TestAPortIsPassedOverWhileItsQueryIsUnderWay(t *testing.T) {
	f, ledger := newRing(t, startServer(t, silence).addr, 4)
	f.send(0, 4)
	if f.waiting() != 4 {
		t.Fatalf("%d queries are under way", f.waiting())
	}
	f.send(0, 1)
	if got := written(ledger); got.Unsent != 1 || f.waiting() != 4 {
		t.Errorf("%d queries are under way, %d unsent", f.waiting(), got.Unsent)
	}
}

// What comes late for a kept socket's earlier query shows nothing about the later one.
func TestALateMessageForAKeptSocketMeansNothingForItsNextQuery(t *testing.T) {
	t.Run("an answer", func(t *testing.T) {
		conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		f, ledger := newRing(t, conn.LocalAddr().(*net.UDPAddr).AddrPort(), 1)
		take := func() (query []byte, from net.Addr) {
			buf := make([]byte, 512)
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				t.Fatal(err)
			}
			return buf[:n], from
		}
		reply := func(query []byte, to net.Addr) {
			m := new(dns.Msg)
			if err := m.Unpack(query); err != nil {
				t.Fatal(err)
			}
			wire, err := answer(m).Pack()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = conn.WriteTo(wire, to)
		}
		f.send(0, 1)
		first, from := take()
		f.timeout = 50 * time.Millisecond
		settleAll(t, f)
		f.timeout = time.Second
		f.send(0, 1)
		second, _ := take()
		reply(first, from)
		f.loop.receive()
		reply(second, from)
		settleAll(t, f)
		if got := written(ledger); got.Outcomes[history.Timeout] != 1 || got.Outcomes[history.Answered] != 1 || got.Ignored != 1 {
			t.Errorf("got %v, %d ignored", got.Outcomes, got.Ignored)
		}
	})
	t.Run("an ICMP error", func(t *testing.T) {
		server := closedPort(t)
		f, ledger := newRing(t, server, 1)
		f.send(0, 1)
		settleAll(t, f)
		f.loop.out.put(0, f.asked[0].wire, f.sources[0].earlier)
		_ = f.loop.out.sendOne(int(f.sources[0].fd), f.server) // its error waits in the socket
		listenAt(t, net.UDPAddrFromAddrPort(server))
		f.send(0, 1)
		settleAll(t, f)
		if got := written(ledger).Outcomes; got[history.ICMP] != 1 || got[history.Answered] != 1 {
			t.Errorf("got %v, want the first refused and the second answered", got)
		}
	})
}

func TestAMessageFromAnotherAddressIsNoAnswer(t *testing.T) {
	stranger, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	f, ledger := newRing(t, startServer(t, silence).addr, 1)
	f.timeout = 50 * time.Millisecond
	f.send(0, 1)
	forged := append([]byte(nil), f.asked[0].wire...)
	forged[0], forged[1], forged[2] = byte(f.flights.at(0).id>>8), byte(f.flights.at(0).id), 0x80
	_, _ = stranger.WriteTo(forged, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: f.ring.port(0)})
	settleAll(t, f)
	if got := written(ledger).Outcomes; got[history.Timeout] != 1 {
		t.Errorf("got %v, want a timeout", got)
	}
}

func TestAServerMayHaveAnIPv6Address(t *testing.T) {
	conn, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		t.Skip(err)
	}
	at := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) { _ = w.WriteMsg(answer(q)) })}
	go func() { _ = server.ActivateAndServe() }()
	f, ledger := newRing(t, at, 2)
	f.send(0, 2)
	settleAll(t, f)
	_ = conn.Close()
	f.send(0, 2)
	settleAll(t, f)
	if got := written(ledger).Outcomes; got[history.Answered] != 2 || got[history.ICMP] != 2 {
		t.Errorf("got %v, want two answered and two refused", got)
	}
}

func TestRingsHavePortsOfTheirOwn(t *testing.T) {
	server := closedPort(t)
	plan := func(length time.Duration, rates ...int) Plan {
		p := Plan{For: length}
		for _, rate := range rates {
			p.Streams = append(p.Streams, freshStream(server, rate))
		}
		return p
	}
	const plenty = 1 << 20
	for name, c := range map[string]struct {
		plan  Plan
		files uint64
		kept  bool
	}{
		"a port has several turns":             {plan(2*time.Minute, 1000), plenty, true},
		"each port has one turn":               {plan(20*time.Second, 1000), plenty, false},
		"two streams":                          {plan(2*time.Minute, 500, 500), plenty, true},
		"two streams need more than all ports": {plan(2*time.Minute, 1000, 1000), plenty, false},
		"as many files as for an outage":       {plan(2*time.Minute, 1000), openFiles(plan(1, 1000)), false},
	} {
		t.Run(name, func(t *testing.T) {
			seen, kept := map[int]bool{}, 0
			for i, r := range c.plan.rings(c.files) {
				kept += r.kept
				if r.kept == 0 {
					continue
				}
				if round := time.Duration(r.ports) * time.Second / time.Duration(c.plan.Streams[i].Rate); round <= leastMemory+DefaultTimeout {
					t.Errorf("stream %d: a port has its next turn after %v", i+1, round)
				}
				for place := range r.ports {
					port := r.port(place)
					if seen[port] || port < firstFresh || port > 65535 {
						t.Fatalf("port %d of stream %d is another's, or out of range", port, i+1)
					}
					seen[port] = true
				}
			}
			if (kept > 0) != c.kept {
				t.Errorf("%d sockets are kept, want some: %t", kept, c.kept)
			}
		})
	}
}

// No later message on a fresh port reports drops.
func TestAnswersThatTheKernelDroppedOnFreshPortsAreCounted(t *testing.T) {
	server, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	f, ledger := newFresh(t, server.LocalAddr().(*net.UDPAddr).AddrPort())
	f.send(0, 1)
	q := f.flights.at(0)
	_ = unix.SetsockoptInt(int(f.sources[q.place].fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096)
	for range 100 {
		_, _ = server.WriteTo(make([]byte, 500), &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: f.ring.port(int(q.place))})
	}
	f.expire(q.sent + 2*time.Second)
	if got := written(ledger); got.Dropped < 10 || got.Dropped > 100 || got.Behind == "" {
		t.Errorf("%d answers were dropped: %q", got.Dropped, got.Behind)
	}
}

func TestMoreQueriesUnderWayThanForeseenAreAllKept(t *testing.T) {
	f, _ := newFresh(t, closedPort(t))
	f.flights = make([]single, 2)
	f.byFile = nil
	if next := f.send(0, 10); next != 10 || f.waiting() != 10 {
		t.Fatalf("sent up to %d, %d are under way", next, f.waiting())
	}
	ports := map[int]bool{}
	for number := uint32(0); number < 10; number++ {
		q := f.flights.at(number)
		if s := f.sources[q.place]; f.byFile[s.fd] != q.place || s.query != number {
			t.Errorf("the file of query %d is reported to be that of %d", number, s.query)
		}
		ports[f.ring.port(int(q.place))] = true
	}
	if len(ports) != 10 {
		t.Errorf("10 queries are kept with %d ports", len(ports))
	}
}
