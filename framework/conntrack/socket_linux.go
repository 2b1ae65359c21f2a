package conntrack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// buffered is what the socket may hold, in bytes: some seconds of events, for
	// a machine that stalls.
	buffered = 16 << 20
	// readSize holds the longest message that netlink_dump() of the kernel writes.
	readSize = 32 << 10
)

// socket receives the events of connection tracking entries in the network namespace
// that it was opened in.
type socket struct{ fd int }

// listen needs CAP_NET_ADMIN.
func listen() (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", os.NewSyscallError("socket", err))
	}
	s := &socket{fd}
	// The buffer is set first, because events arrive as soon as the socket is bound. In a
	// user namespace the host limits its size.
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffered)
	if errors.Is(err, unix.EPERM) {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffered)
	}
	if err = os.NewSyscallError("set SO_RCVBUF", err); err == nil {
		groups := uint32(1<<(unix.NFNLGRP_CONNTRACK_NEW-1) | 1<<(unix.NFNLGRP_CONNTRACK_DESTROY-1))
		err = os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to connection tracking events (this needs CAP_NET_ADMIN): %w", err), s.close())
	}
	return s, nil
}

func (s *socket) close() error { return os.NewSyscallError("close", unix.Close(s.fd)) }

// drain reports each change that has arrived, and whether the socket overflowed: then
// some are missing.
func (s *socket) drain(buf []byte, report func(change)) (overflowed bool, err error) {
	for {
		n, err := unix.Read(s.fd, buf) // recvfrom would allocate memory for the sender
		switch {
		case errors.Is(err, unix.EAGAIN):
			return overflowed, nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOBUFS):
			overflowed = true
			continue
		case err != nil:
			return overflowed, fmt.Errorf("read connection tracking events: %w", os.NewSyscallError("read", err))
		}
		if _, err := parse(buf[:n], report); err != nil {
			return overflowed, err
		}
	}
}

// list reports every existing entry of the network namespace as if it were new.
func list(report func(change)) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("open a netlink socket: %w", os.NewSyscallError("socket", err))
	}
	defer func() { _ = unix.Close(fd) }()
	request := binary.NativeEndian.AppendUint32(nil, unix.SizeofNlMsghdr+familyBytes)
	request = binary.NativeEndian.AppendUint16(request, messageGet)
	request = binary.NativeEndian.AppendUint16(request, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	request = append(request, make([]byte, 4+4+familyBytes)...) // number, sender and family: any
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("request the connection tracking entries: %w", os.NewSyscallError("sendto", err))
	}
	buf := make([]byte, readSize)
	for done := false; !done; {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == nil {
			done, err = parse(buf[:n], report)
		}
		if err != nil {
			return fmt.Errorf("list the connection tracking entries: %w", err)
		}
	}
	return nil
}

func processorTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // fails only for a wrong argument
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
