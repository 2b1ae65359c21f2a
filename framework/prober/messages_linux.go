package prober

import (
	"encoding/binary"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// batchSize is how many datagrams one system call sends or takes.
	batchSize = 64
	// maxQuery is more than a packed question can have: header 12, name 255, type
	// and class 4, EDNS0 record 11 octets.
	maxQuery = 288
	// controlSize has room for the kernel's time of a datagram's arrival and its count of
	// dropped ones.
	controlSize = 128
)

// mmsghdr is one datagram of sendmmsg(2) and recvmmsg(2).
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32 // octets of it
}

// outbox holds the messages for the next sendmmsg.
type outbox struct {
	headers [batchSize]mmsghdr
	parts   [batchSize]unix.Iovec
	content [batchSize][maxQuery]byte
}

func newOutbox() *outbox {
	o := new(outbox)
	for i := range o.headers {
		o.parts[i].Base = &o.content[i][0]
		o.headers[i].hdr.Iov = &o.parts[i]
		o.headers[i].hdr.SetIovlen(1)
	}
	return o
}

// put makes the query wire, with that id, message i of the batch.
func (o *outbox) put(i int, wire []byte, id uint16) {
	n := copy(o.content[i][:], wire)
	binary.BigEndian.PutUint16(o.content[i][:], id)
	o.parts[i].SetLen(n)
}

// send sends messages from..to on a connected socket and returns how many left.
// The error is that of the first one, if none left.
func (o *outbox) send(fd, from, to int) (int, error) {
	return call(unix.SYS_SENDMMSG, fd, unsafe.Pointer(&o.headers[from]), uintptr(to-from), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil, 0)
}

func (o *outbox) sendOne(fd int, to *address) error {
	_, err := call(unix.SYS_SENDTO, fd, unsafe.Pointer(o.parts[0].Base), uintptr(o.parts[0].Len),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, unsafe.Pointer(&to.raw), uintptr(to.size))
	return err
}

// inbox holds the messages of the last recvmmsg.
type inbox struct {
	headers [batchSize]mmsghdr
	parts   [batchSize]unix.Iovec
	content [batchSize][maxAnswer]byte
	control [batchSize][controlSize]byte
	from    [unix.SizeofSockaddrInet6]byte // where message 0 came from, if receiveOne took it
}

func newInbox() *inbox {
	in := new(inbox)
	for i := range in.headers {
		in.parts[i].Base = &in.content[i][0]
		in.parts[i].SetLen(maxAnswer)
		in.headers[i].hdr.Iov = &in.parts[i]
		in.headers[i].hdr.SetIovlen(1)
		in.headers[i].hdr.Control = &in.control[i][0]
	}
	return in
}

// receive takes up to batchSize messages that wait in the socket.
func (in *inbox) receive(fd int) (int, error) {
	for i := range in.headers {
		in.headers[i].hdr.SetControllen(controlSize)
	}
	return call(unix.SYS_RECVMMSG, fd, unsafe.Pointer(&in.headers[0]), batchSize, unix.MSG_DONTWAIT, nil, 0)
}

// receiveOne takes one message that waits in the socket: it is then message 0.
func (in *inbox) receiveOne(fd int) error {
	h := &in.headers[0]
	h.hdr.SetControllen(controlSize)
	h.hdr.Name, h.hdr.Namelen = &in.from[0], uint32(len(in.from))
	n, err := call(unix.SYS_RECVMSG, fd, unsafe.Pointer(&h.hdr), unix.MSG_DONTWAIT, 0, nil, 0)
	h.n = uint32(n)
	return err
}

// receiveReported takes one ICMP error that waits in the socket: the query that
// it quotes is then message 0. See IP_RECVERR in ip(7).
func (in *inbox) receiveReported(fd int) bool {
	h := &in.headers[0]
	h.hdr.SetControllen(controlSize)
	n, err := call(unix.SYS_RECVMSG, fd, unsafe.Pointer(&h.hdr), unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT, 0, nil, 0)
	h.n = uint32(n)
	return err == nil
}

func (in *inbox) message(i int) []byte { return in.content[i][:min(in.headers[i].n, maxAnswer)] }

// drops is how many messages the kernel dropped because a socket was full. The kernel
// reports them with the next message; this requests them if none may come.
func drops(fd int) uint32 {
	var info [unix.SK_MEMINFO_DROPS + 1]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0
	}
	return info[unix.SK_MEMINFO_DROPS]
}

// arrived is when message i reached the kernel, in wall clock time; zero if unknown.
// dropped is how many messages the kernel dropped because the socket was full, since it
// was opened.
func (in *inbox) arrived(i int) (at time.Duration, dropped uint32) {
	rest := in.control[i][:in.headers[i].hdr.Controllen]
	for len(rest) >= unix.SizeofCmsghdr {
		header, data, after, err := unix.ParseOneSocketControlMessage(rest)
		if err != nil {
			break
		}
		rest = after
		if header.Level != unix.SOL_SOCKET {
			continue
		}
		switch {
		case header.Type == unix.SO_TIMESTAMPNS_NEW && len(data) >= 16:
			at = time.Duration(binary.NativeEndian.Uint64(data))*time.Second + time.Duration(binary.NativeEndian.Uint64(data[8:]))
		case header.Type == unix.SO_RXQ_OVFL && len(data) >= 4:
			dropped = binary.NativeEndian.Uint32(data)
		}
	}
	return at, dropped
}
