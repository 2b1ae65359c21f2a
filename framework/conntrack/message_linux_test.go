package conntrack

import (
	"encoding/binary"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// attribute is one of a netlink message, its value in bytes or in attributes.
type attribute struct {
	kind  uint16
	value any
}

func encode(attributes ...attribute) []byte {
	var b []byte
	for _, a := range attributes {
		kind, value := a.kind, []byte(nil)
		switch v := a.value.(type) {
		case []byte:
			value = v
		case []attribute:
			kind, value = kind|unix.NLA_F_NESTED, encode(v...)
		}
		b = binary.NativeEndian.AppendUint16(b, uint16(attrHeader+len(value)))
		b = binary.NativeEndian.AppendUint16(b, kind)
		b = append(b, value...)
		b = append(b, make([]byte, aligned(len(b))-len(b))...)
	}
	return b
}

// message is one of ctnetlink for IPv4.
func message(kind, flags uint16, sender uint32, attributes ...attribute) []byte {
	body := append([]byte{unix.AF_INET, 0, 0, 0}, encode(attributes...)...)
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, flags)
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = binary.NativeEndian.AppendUint32(b, sender)
	return append(b, body...)
}

func tupleOf(kind uint16, protocol uint8, from, to netip.AddrPort) attribute {
	return attribute{kind, []attribute{
		{attrTupleIP, []attribute{{attrSource4, from.Addr().AsSlice()}, {attrDestination4, to.Addr().AsSlice()}}},
		{attrTupleProtocol, []attribute{
			{attrProtocol, []byte{protocol}},
			{attrSource, binary.BigEndian.AppendUint16(nil, from.Port())},
			{attrDestPort, binary.BigEndian.AppendUint16(nil, to.Port())},
		}},
	}}
}

func status(bits uint32) attribute {
	return attribute{attrStatus, binary.BigEndian.AppendUint32(nil, bits)}
}

// refusal is a struct nlmsgerr without the message that it is about.
func refusal(why unix.Errno) []byte {
	b := message(unix.NLMSG_ERROR, 0, 0)
	binary.NativeEndian.PutUint32(b[unix.SizeofNlMsghdr:], uint32(-int32(why)))
	return b
}

var (
	client  = netip.MustParseAddrPort("10.244.1.9:40000")
	service = netip.MustParseAddrPort("10.96.0.10:53")
	backing = netip.MustParseAddrPort("10.244.2.5:53")
)

func entry(protocol uint8, more ...attribute) []attribute {
	return append([]attribute{tupleOf(attrOriginal, protocol, client, service), tupleOf(attrReply, protocol, backing, client)}, more...)
}

func TestParse(t *testing.T) {
	created := message(messageNew, unix.NLM_F_CREATE|unix.NLM_F_EXCL, 0, entry(protocolUDP, status(0))...)
	is := change{protocol: protocolUDP, client: client, service: service, backend: backing}
	ended := func(removed, replied bool) change {
		c := is
		c.ended, c.removed, c.replied = true, removed, replied
		return c
	}
	for name, c := range map[string]struct {
		read []byte
		want []change
	}{
		"nothing":                {nil, nil},
		"a new entry":            {created, []change{is}},
		"its time was up":        {message(messageDelete, 0, 0, entry(protocolUDP, status(statusSeenReply))...), []change{ended(false, true)}},
		"a process took it":      {message(messageDelete, 0, 4711, entry(protocolUDP, status(0))...), []change{ended(true, false)}},
		"two in one read":        {append(created[:len(created):len(created)], created...), []change{is, is}},
		"another kind":           {message(unix.NFNL_SUBSYS_CTNETLINK<<8|1, 0, 0), nil},
		"attributes not yet met": {message(messageNew, 0, 0, entry(protocolUDP, attribute{999, []byte{1, 2, 3}})...), []change{is}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []change
			if _, err := parse(c.read, func(c change) { got = append(got, c) }); err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v (%v)\nwant %+v", got, err, c.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	whole := message(messageNew, 0, 0, entry(protocolUDP)...)
	longer := append([]byte(nil), whole...)
	binary.NativeEndian.PutUint32(longer, uint32(len(whole)+1))
	for name, c := range map[string]struct {
		read []byte
		want string
	}{
		"a refusal":            {refusal(unix.EPERM), "ctnetlink error: operation not permitted"},
		"half a header":        {whole[:10], "it is too short"},
		"half a message":       {whole[:40], "were read"},
		"more than there is":   {longer, "were read"},
		"an address of 5":      {message(messageNew, 0, 0, attribute{attrOriginal, []attribute{{attrTupleIP, []attribute{{attrSource4, make([]byte, 5)}}}}}), "address of 5 bytes"},
		"a status of 2":        {message(messageNew, 0, 0, attribute{attrStatus, []byte{0, 1}}), "status of 2 bytes"},
		"an attribute too big": {message(messageNew, 0, 0, attribute{attrOriginal, []byte{9, 0, 1, 0}}), "attribute has a length of 9 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(c.read, func(c change) { t.Errorf("reported %+v", c) })
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// Whatever is read, parsing ends without a panic, and what it reports fits into
// what was read.
func FuzzParse(f *testing.F) {
	f.Add(message(messageNew, unix.NLM_F_CREATE, 0, entry(protocolUDP, status(0))...))
	f.Add(message(messageDelete, 0, 1, entry(6, status(statusSeenReply))...))
	f.Fuzz(func(t *testing.T, read []byte) {
		reported := 0
		_, err := parse(read, func(change) { reported++ })
		if reported > len(read)/unix.SizeofNlMsghdr {
			t.Errorf("%d changes in %d bytes", reported, len(read))
		}
		if _, again := parse(read, func(change) { reported-- }); (err == nil) != (again == nil) || reported != 0 {
			t.Errorf("read twice: %v, then %v, and %d more", err, again, reported)
		}
	})
}

// BenchmarkParse is what an event costs besides the system call.
func BenchmarkParse(b *testing.B) {
	read := message(messageNew, 0, 0, entry(protocolUDP, status(0))...)
	for b.Loop() {
		if _, err := parse(read, func(change) {}); err != nil {
			b.Fatal(err)
		}
	}
}
