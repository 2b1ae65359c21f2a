package prober

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/history"
)

func TestAConnectionThatIsNotMadeIsLostOrUnsent(t *testing.T) {
	failing := func(call string, errno error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError(call, errno)}
	}
	for _, c := range []struct {
		err  error
		want history.Outcome
	}{
		{&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, history.Timeout},
		{&net.OpError{Op: "dial", Err: context.DeadlineExceeded}, history.Timeout},
		{failing("connect", unix.ETIMEDOUT), history.Timeout},
		{failing("connect", unix.ECONNREFUSED), history.ICMP},
		{failing("connect", unix.ECONNRESET), history.ICMP},
		{failing("connect", unix.EHOSTUNREACH), history.ICMP},
		{failing("bind", unix.EADDRINUSE), history.Unsent},
		{failing("connect", unix.EADDRNOTAVAIL), history.Unsent},
		{failing("socket", unix.EMFILE), history.Unsent},
		{failing("socket", unix.ENFILE), history.Unsent},
		{failing("connect", unix.ENOBUFS), history.Unsent},
	} {
		s := freshStream(closedPort(t), 1)
		s.Mode = history.Connect
		ledger := newLedger([]QueryStream{s}, func(history.Query) {})
		connections := newConnections(&task{&loop{clock: history.NewClock()}, s, time.Second, ledger.accounts[0]}, nil)
		connections.open = 1
		connections.settle(history.Query{}, notConnected(c.err), c.err)
		if got := written(ledger); got.Outcomes[c.want] != 1 || (got.Behind != "") != (c.want == history.Unsent) {
			t.Errorf("%v: got %v, %q, want %s", c.err, got.Outcomes, got.Behind, c.want)
		}
		if n := connections.waiting(); n != 0 {
			t.Errorf("%v: %d requests still wait", c.err, n)
		}
	}
}

// A port that the kernel holds for a minute after each query is one that a minute
// at 1,000/s runs out of.
func TestAnAnsweredConnectionHoldsNoPort(t *testing.T) {
	t.Parallel()
	server := startServer(t, answer).addr
	s := freshStream(server, 200)
	s.Mode = history.Connect
	summary, queries := run(t, t.Context(), Plan{Streams: []QueryStream{s}, For: 500 * time.Millisecond})
	wantOnly(t, summary.Figures, history.Answered)
	ports := map[int]bool{}
	for _, q := range queries {
		ports[q.Port] = true
	}
	if sent := summary.Asked - summary.Unsent; len(ports)-min(1, summary.Unsent) != sent {
		t.Errorf("%d connections from %d ports, want one each", sent, len(ports))
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	const timeWait = "06"
	held, address := 0, func(port int) string { return fmt.Sprintf("0100007F:%04X", port) } // 127.0.0.1, as /proc/net/tcp writes it
	ours := map[string]bool{}                                                               // another process may have had a server at this port before
	for port := range ports {
		ours[address(port)] = true
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) > 3 && ours[fields[1]] && fields[2] == address(int(server.Port())) && fields[3] == timeWait {
			held++
		}
	}
	if held > 0 {
		t.Errorf("the kernel holds %d ports of %d connections that are over", held, summary.Asked)
	}
}
