package conntrack

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// The kernel itself reports an entry that a process made and removed, and
// lists it while it is there.
func TestTheKernelsEvents(t *testing.T) {
	inOwnNetwork(t, func() error {
		s, err := listen()
		if err != nil {
			return err
		}
		const confirmed = 1 << 3
		timeout := attribute{7, binary.BigEndian.AppendUint32(nil, 30)}
		var listed []change
		for _, request := range [][]byte{
			message(messageNew, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL, 0, entry(protocolUDP, status(confirmed|statusSeenReply), timeout)...),
			message(messageDelete, unix.NLM_F_REQUEST|unix.NLM_F_ACK, 0, tupleOf(attrOriginal, protocolUDP, client, service)),
		} {
			if err := errors.Join(ask(request), list(func(c change) { listed = append(listed, c) })); err != nil {
				return errors.Join(err, s.close())
			}
		}
		var got []change
		overflowed, err := s.drain(make([]byte, readSize), func(c change) { got = append(got, c) })
		created := change{protocol: protocolUDP, client: client, service: service, backend: backing, replied: true}
		removed := created
		removed.ended, removed.removed = true, true
		if want := []change{created, removed}; overflowed || !slices.Equal(got, want) {
			t.Errorf("got  %+v (overflow %t)\nwant %+v", got, overflowed, want)
		}
		if want := []change{created}; !slices.Equal(listed, want) {
			t.Errorf("listed while it was there, and after: %+v, want %+v", listed, want)
		}
		return errors.Join(err, s.close())
	})
}

// inOwnNetwork runs f in a network namespace that ends with its thread.
func inOwnNetwork(t *testing.T, f func() error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a network namespace of its own needs root")
	}
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread is of no other use
		err := os.NewSyscallError("unshare", unix.Unshare(unix.CLONE_NEWNET))
		if err == nil {
			err = f()
		}
		failed <- err
	}()
	if err := <-failed; errors.Is(err, unix.EPERM) {
		t.Skipf("this kernel gives no network namespace: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// ask sends a request to ctnetlink and waits for its answer.
func ask(request []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buf := make([]byte, readSize)
	n, _, err := unix.Recvfrom(fd, buf, 0)
	if err != nil || n < unix.SizeofNlMsghdr+4 {
		return errors.Join(err, errShort)
	}
	if code := int32(binary.NativeEndian.Uint32(buf[unix.SizeofNlMsghdr:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}
