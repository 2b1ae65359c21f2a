package prober

import (
	"net"
	"net/netip"
	"testing"
	"time"

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
	f := newFreshPorts(l, s, asked, time.Second, ledger.accounts[0])
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
	f.turns.taken, f.turns.began = freshCount-3, f.loop.clock.Now() // the round ends after three
	f.send(0, 5)
	reused := written(ledger).Reused
	// Ports that another process has are passed over.
	if reused < 2 || reused > 5 {
		t.Errorf("%d of 5 queries count as sent from used ports, want the last two", reused)
	}
}

// A fresh port is closed with its query: no later message reports drops.
func TestAnswersThatTheKernelDroppedOnFreshPortsAreCounted(t *testing.T) {
	server, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	f, ledger := newFresh(t, server.LocalAddr().(*net.UDPAddr).AddrPort())
	f.send(0, 1)
	q := f.at(0)
	_ = unix.SetsockoptInt(q.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4096)
	for range 100 {
		_, _ = server.WriteTo(make([]byte, 500), &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: q.port})
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
		q := f.at(number)
		if f.byFile[q.fd] != number {
			t.Errorf("the file of query %d is said to be that of %d", number, f.byFile[q.fd])
		}
		ports[q.port] = true
	}
	if len(ports) != 10 {
		t.Errorf("10 queries are kept with %d ports", len(ports))
	}
}
