package prober

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// dial opens a connected UDP socket, so that the kernel hands ICMP errors to it.
// It leaves the source port to the kernel where from is 0.
func dial(server netip.AddrPort, from int) (conn *net.UDPConn, port int, err error) {
	server = netip.AddrPortFrom(server.Addr().Unmap(), server.Port())
	conn, err = net.DialUDP("udp", &net.UDPAddr{Port: from}, net.UDPAddrFromAddrPort(server))
	if err != nil {
		return nil, 0, fmt.Errorf("open socket to %s: %w", server, err)
	}
	if err := reportICMP(conn, server.Addr().Is4()); err != nil {
		return nil, 0, errors.Join(fmt.Errorf("set up socket to %s: %w", server, err), conn.Close())
	}
	return conn, conn.LocalAddr().(*net.UDPAddr).Port, nil
}

// unreachable is true for an error of the network that the kernel reports when
// a socket is connected or written to. EPERM is a packet filter's drop or
// reject on its way out. Any other error is this machine's own, such as too
// many open files.
func unreachable(err error) bool {
	for _, errno := range []syscall.Errno{
		unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EHOSTDOWN,
		unix.ENETDOWN, unix.ENOPROTOOPT, unix.EPERM, unix.EACCES,
	} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// readWaiting reads what lies in the socket already: a message, an error that
// the network reported, or neither. Once its deadline has passed, a
// connection's Read does not look any more; but where this process got no CPU
// for a while, the answer may have been there in time.
func readWaiting(conn *net.UDPConn, buf []byte) (message []byte, reported error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, nil //nolint:nilerr // closed: there is nothing to read
	}
	_ = raw.Control(func(fd uintptr) {
		n, _, err := unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT)
		switch {
		case err == nil:
			message = buf[:n]
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
			reported = err
		}
	})
	return message, reported
}

// checkOpenFiles fails where an outage would leave more sockets waiting for
// their timeout than this process may open.
func checkOpenFiles(p Plan) error {
	need := 64 // for everything else
	for _, s := range p.Streams {
		need += s.Ports
		if s.Ports == 0 {
			need += int(float64(s.Rate) * (p.timeout() + Tolerance).Seconds())
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	if uint64(need) > limit.Cur {
		return fmt.Errorf("an outage would leave %d sockets open (rate × timeout of fresh streams), but this process may open %d: "+
			"lower the rate or the timeout, or raise the limit (ulimit -n %d)", need, limit.Cur, need)
	}
	return nil
}
