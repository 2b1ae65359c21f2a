package prober

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/history"
)

// ports gives connections their source ports. They take turns like fresh ports, so that a
// connection's port shows to which pod it went.
type ports struct {
	clock *history.Clock

	mu    sync.Mutex
	turns turns
}

func newPorts(clock *history.Clock) *ports { return &ports{clock: clock, turns: newTurns()} }

// dial opens a connection. The port is bound first, so that it is known even if the connection
// fails.
func (p *ports) dial(server netip.AddrPort, deadline time.Time) (conn net.Conn, port int, err error) {
	dialer := net.Dialer{Deadline: deadline, Control: func(network, _ string, socket syscall.RawConn) (err error) {
		port, err = p.bind(network, socket)
		return err
	}}
	conn, err = dialer.Dial("tcp", server.String())
	return conn, port, err
}

// bind takes the next port that no other socket uses.
func (p *ports) bind(network string, socket syscall.RawConn) (port int, err error) {
	family := unix.AF_INET
	if network == "tcp6" {
		family = unix.AF_INET6
	}
	failed := socket.Control(func(fd uintptr) {
		for range freshCount {
			p.mu.Lock()
			port = p.turns.next(p.clock.Now())
			p.mu.Unlock()
			if err = unix.Bind(int(fd), anywhere(family, port)); !errors.Is(err, unix.EADDRINUSE) {
				return
			}
		}
	})
	return port, errors.Join(failed, err)
}

// endWithReset makes a connection end with a reset (RST), which frees the port. After a FIN the
// kernel would reserve the port for a minute (TIME_WAIT): at 930/s all ports would be reserved
// within a minute. What was sent is settled by then.
func endWithReset(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0) }

// notConnected is the outcome of what was to be sent on a connection that could not be made:
// lost if the network or the server is the cause, unsent if this machine is.
func notConnected(err error) history.Outcome {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, unix.ETIMEDOUT):
		return history.Timeout
	case unreachable(err), errors.Is(err, unix.ECONNRESET):
		return history.ICMP
	}
	return history.Unsent
}
