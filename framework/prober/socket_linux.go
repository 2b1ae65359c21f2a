package prober

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// receiveBuffer is the size of a fixed port's receive buffer in octets, if
// net.core.rmem_max allows it: room for a second's answers at 20,000/s.
const receiveBuffer = 4 << 20

// call makes a system call that does not block, again if a signal interrupted it. It bypasses Go's
// scheduler: to release the processor and get it back costs more than the call.
func call(number uintptr, fd int, data unsafe.Pointer, length, flags uintptr, more unsafe.Pointer, moreLength uintptr) (int, error) {
	for {
		n, _, errno := unix.RawSyscall6(number, uintptr(fd), uintptr(data), length, flags, uintptr(more), moreLength)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// dial opens a UDP socket like openFrom, and connects it, so that it gets ICMP errors. The kernel
// chooses the source port.
func dial(server netip.AddrPort) (fd int, err error) {
	a := newAddress(server)
	if fd, err = a.openFrom(0); err == nil {
		if _, err = call(unix.SYS_CONNECT, fd, unsafe.Pointer(&a.raw), uintptr(a.size), 0, nil, 0); err != nil {
			closeFile(fd)
		}
	}
	if err != nil {
		return -1, fmt.Errorf("open socket to %s: %w", server, err)
	}
	return fd, nil
}

// address is a server's, as the kernel takes it.
type address struct {
	raw  [unix.SizeofSockaddrInet6]byte
	size int
	any  [unix.SizeofSockaddrInet6]byte // of this machine, without a port
}

func newAddress(server netip.AddrPort) *address {
	a := &address{}
	port := [2]byte{byte(server.Port() >> 8), byte(server.Port())}
	addr := server.Addr().Unmap()
	if addr.Is4() {
		raw := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: *(*uint16)(unsafe.Pointer(&port)), Addr: addr.As4()}
		a.size = copy(a.raw[:], (*[unix.SizeofSockaddrInet4]byte)(unsafe.Pointer(&raw))[:])
	} else {
		raw := unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: *(*uint16)(unsafe.Pointer(&port)), Addr: addr.As16(), Scope_id: zone(addr.Zone())}
		a.size = copy(a.raw[:], (*[unix.SizeofSockaddrInet6]byte)(unsafe.Pointer(&raw))[:])
	}
	copy(a.any[:2], a.raw[:2])
	return a
}

// sent reports whether message 0 came from that address.
func (a *address) sent(in *inbox) bool {
	if a.size == unix.SizeofSockaddrInet4 {
		return [8]byte(in.from[:]) == [8]byte(a.raw[:])
	}
	const flow, scope = 4, 24 // the flow label is not part of an address
	return [flow]byte(in.from[:]) == [flow]byte(a.raw[:]) && [16]byte(in.from[flow+4:scope]) == [16]byte(a.raw[flow+4:scope])
}

// openFrom opens a UDP socket that sends from that port, 0 for any, and never blocks. The kernel
// records when an answer arrived: this process may get no processor for a while after that.
func (a *address) openFrom(port int) (fd int, err error) {
	family := int(*(*uint16)(unsafe.Pointer(&a.raw)))
	n, _, errno := unix.RawSyscall(unix.SYS_SOCKET, uintptr(family), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if errno != 0 {
		return -1, errno
	}
	fd = int(n)
	defer func() {
		if err != nil {
			closeFile(fd)
		}
	}()
	a.any[2], a.any[3] = byte(port>>8), byte(port)
	if _, err := call(unix.SYS_BIND, fd, unsafe.Pointer(&a.any), uintptr(a.size), 0, nil, 0); err != nil {
		return fd, err
	}
	level, option := receivesErrors(family)
	if err := turnOn(fd, level, option); err != nil {
		return fd, err
	}
	return fd, turnOn(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS_NEW)
}

func turnOn(fd, level, option int) error {
	on := int32(1)
	if _, _, errno := unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option), uintptr(unsafe.Pointer(&on)), unsafe.Sizeof(on), 0); errno != 0 {
		return errno
	}
	return nil
}

func closeFile(fd int) { _, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

// receivesErrors is the option for every ICMP error, host unreachable included, with the
// packet that caused it.
func receivesErrors(family int) (level, option int) {
	if family == unix.AF_INET {
		return unix.IPPROTO_IP, unix.IP_RECVERR
	}
	return unix.IPPROTO_IPV6, unix.IPV6_RECVERR
}

// anywhere is a port at every address of this machine.
func anywhere(family, port int) unix.Sockaddr {
	if family == unix.AF_INET {
		return &unix.SockaddrInet4{Port: port}
	}
	return &unix.SockaddrInet6{Port: port}
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
