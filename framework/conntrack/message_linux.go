package conntrack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Messages and attributes of ctnetlink that matter here, see
// linux/netfilter/nfnetlink_conntrack.h.
const (
	messageNew    = unix.NFNL_SUBSYS_CTNETLINK << 8
	messageGet    = unix.NFNL_SUBSYS_CTNETLINK<<8 | 1
	messageDelete = unix.NFNL_SUBSYS_CTNETLINK<<8 | 2

	attrOriginal, attrReply, attrStatus    = 1, 2, 3
	attrTupleIP, attrTupleProtocol         = 1, 2
	attrSource4, attrDestination4          = 1, 2
	attrSource6, attrDestination6          = 3, 4
	attrProtocol, attrSource, attrDestPort = 1, 2, 3

	// attrType leaves the flags out of an attribute's type.
	attrType = ^uint16(unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)

	statusSeenReply = 1 << 1

	attrHeader  = unix.SizeofNlAttr
	familyBytes = 4 // struct nfgenmsg
)

var errShort = errors.New("it is too short")

// parse reports every change in the bytes that were read from the socket, and whether
// they end a list. An error means that the kernel's format is not the expected one.
func parse(b []byte, report func(change)) (done bool, err error) {
	for len(b) > 0 {
		if len(b) < unix.SizeofNlMsghdr {
			return done, fmt.Errorf("ctnetlink message of %d bytes: %w", len(b), errShort)
		}
		length := int(binary.NativeEndian.Uint32(b))
		kind, sender := binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint32(b[12:])
		if length < unix.SizeofNlMsghdr || length > len(b) {
			return done, fmt.Errorf("ctnetlink message has a length of %d bytes, %d were read", length, len(b))
		}
		body := b[unix.SizeofNlMsghdr:length]
		b = b[min(aligned(length), len(b)):]
		if kind == unix.NLMSG_ERROR && len(body) >= 4 {
			return done, fmt.Errorf("ctnetlink error: %w", unix.Errno(-int32(binary.NativeEndian.Uint32(body))))
		}
		if kind != messageNew && kind != messageDelete {
			done = done || kind == unix.NLMSG_DONE
			continue
		}
		if len(body) < familyBytes {
			return done, fmt.Errorf("ctnetlink message of type %#x: %w", kind, errShort)
		}
		c := change{ended: kind == messageDelete}
		// A change by the kernel itself, such as an entry's expiry, has no sender.
		c.removed = c.ended && sender != 0
		if err := c.read(body[familyBytes:]); err != nil {
			return done, fmt.Errorf("ctnetlink message of type %#x: %w", kind, err)
		}
		report(c)
	}
	return done, nil
}

func aligned(n int) int { return (n + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1) }

func (c *change) read(b []byte) (err error) {
	for kind, value := range attributes(b, &err) {
		switch kind {
		case attrOriginal:
			c.client, c.service, c.protocol, err = tuple(value)
		case attrReply:
			c.backend, _, _, err = tuple(value)
		case attrStatus:
			if len(value) != 4 {
				return fmt.Errorf("status of %d bytes", len(value))
			}
			c.replied = binary.BigEndian.Uint32(value)&statusSeenReply != 0
		}
	}
	return err
}

// tuple reads one direction of an entry.
func tuple(b []byte) (source, destination netip.AddrPort, protocol uint8, err error) {
	var from, to netip.Addr
	var fromPort, toPort uint16
	for kind, part := range attributes(b, &err) {
		for inner, value := range attributes(part, &err) {
			ok := true
			switch {
			case kind == attrTupleIP && (inner == attrSource4 || inner == attrSource6):
				from, ok = netip.AddrFromSlice(value)
			case kind == attrTupleIP && (inner == attrDestination4 || inner == attrDestination6):
				to, ok = netip.AddrFromSlice(value)
			case kind != attrTupleProtocol:
			case inner == attrProtocol && len(value) == 1:
				protocol = value[0]
			case inner == attrSource && len(value) == 2:
				fromPort = binary.BigEndian.Uint16(value)
			case inner == attrDestPort && len(value) == 2:
				toPort = binary.BigEndian.Uint16(value)
			}
			if !ok {
				err = fmt.Errorf("address of %d bytes", len(value))
			}
		}
	}
	return netip.AddrPortFrom(from, fromPort), netip.AddrPortFrom(to, toPort), protocol, err
}

// attributes are those of b in order, up to the first error, which they set.
func attributes(b []byte, err *error) iter.Seq2[uint16, []byte] { //nolint:gocritic // an iterator has no other way to return it
	return func(yield func(kind uint16, value []byte) bool) {
		for len(b) > 0 && *err == nil {
			if len(b) < attrHeader {
				*err = fmt.Errorf("attribute of %d bytes: %w", len(b), errShort)
				return
			}
			length := int(binary.NativeEndian.Uint16(b))
			if length < attrHeader || length > len(b) {
				*err = fmt.Errorf("attribute has a length of %d bytes, %d are left", length, len(b))
				return
			}
			if !yield(binary.NativeEndian.Uint16(b[2:])&attrType, b[attrHeader:length]) {
				return
			}
			b = b[min(aligned(length), len(b)):]
		}
	}
}
