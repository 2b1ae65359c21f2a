package prober

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// receiveBuffer is the size of a fixed port's receive buffer in octets, if
// net.core.rmem_max allows it: room for a second's answers at 20,000/s.
const receiveBuffer = 4 << 20

// dial opens a connected UDP socket that never blocks; connected, so that it gets ICMP
// errors. If from is 0, the kernel chooses the source port.
func dial(server netip.AddrPort, from int) (fd int, err error) {
	family := unix.AF_INET6
	if server.Addr().Unmap().Is4() {
		family = unix.AF_INET
	}
	fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("open socket to %s: %w", server, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open socket to %s: %w", server, err), unix.Close(fd))
		}
	}()
	if from != 0 {
		if err = unix.Bind(fd, anywhere(family, from)); err != nil {
			return -1, err
		}
	}
	// Every ICMP error, host unreachable included, with the packet that caused it.
	level, option := unix.IPPROTO_IPV6, unix.IPV6_RECVERR
	if family == unix.AF_INET {
		level, option = unix.IPPROTO_IP, unix.IP_RECVERR
	}
	if err = unix.SetsockoptInt(fd, level, option, 1); err != nil {
		return -1, err
	}
	// The kernel records when an answer arrived: this process may get no processor for a
	// while after that.
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS_NEW, 1); err != nil {
		return -1, err
	}
	err = unix.Connect(fd, sockaddr(server))
	return fd, err
}

// anywhere is a port at every address of this machine.
func anywhere(family, port int) unix.Sockaddr {
	if family == unix.AF_INET {
		return &unix.SockaddrInet4{Port: port}
	}
	return &unix.SockaddrInet6{Port: port}
}

func sockaddr(at netip.AddrPort) unix.Sockaddr {
	addr := at.Addr().Unmap()
	if addr.Is4() {
		return &unix.SockaddrInet4{Port: int(at.Port()), Addr: addr.As4()}
	}
	return &unix.SockaddrInet6{Port: int(at.Port()), Addr: addr.As16(), ZoneId: zone(addr.Zone())}
}

// zone is an interface's number, by its number or name.
func zone(name string) uint32 {
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(n)
	}
	if i, err := net.InterfaceByName(name); err == nil {
		return uint32(i.Index)
	}
	return 0
}

// sourcePort is the port that a bound or connected socket sends from.
func sourcePort(fd int) (int, error) {
	at, err := unix.Getsockname(fd)
	if err != nil {
		return 0, fmt.Errorf("read a socket's port: %w", err)
	}
	switch at := at.(type) {
	case *unix.SockaddrInet4:
		return at.Port, nil
	case *unix.SockaddrInet6:
		return at.Port, nil
	}
	return 0, fmt.Errorf("a socket's address is a %T", at)
}

// full reports whether a socket takes nothing more for now.
func full(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS) }
