package prober

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"

	"github.com/miekg/dns"

	"github.com/spotdrill/spotdrill/framework/history"
)

// echoTimeout does not depend on the plan. A late answer shows how long this process
// got no processor, and all of that time is in doubt; a lost one does not. It is well
// below settleAfter.
const echoTimeout = DefaultTimeout

// startEcho answers DNS queries in this process until stop is called. Like any server,
// it sleeps until a query arrives. If its queries are lost or late, this process or its
// machine is the cause.
func startEcho(ctx context.Context, rate int) (at QueryStream, stop func(), err error) {
	conn, err := new(net.ListenConfig).ListenPacket(ctx, "udp", "127.0.0.1:0")
	if err != nil {
		return QueryStream{}, nil, fmt.Errorf("open the echo responder's socket: %w", err)
	}
	at = QueryStream{
		Target: history.Echo, Server: conn.LocalAddr().(*net.UDPAddr).AddrPort(), Mode: history.Fixed,
		Rate: rate, Ports: 1, Questions: []Question{{"echo.", dns.TypeA}},
	}
	query := new(dns.Msg).SetQuestion(at.Questions[0].Name, at.Questions[0].Type)
	reply := new(dns.Msg).SetReply(query)
	reply.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: query.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(127, 0, 0, 1)}}
	answer, err := reply.Pack()
	if err != nil {
		return QueryStream{}, nil, fmt.Errorf("pack the echo responder's answer: %w", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		echo(conn.(*net.UDPConn), answer)
	}()
	return at, func() { _ = conn.Close(); <-done }, nil
}

func echo(conn *net.UDPConn, answer []byte) {
	buf := make([]byte, maxAnswer)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		if id, ok := idOf(buf[:n]); ok {
			binary.BigEndian.PutUint16(answer, id)
			_, _ = conn.WriteToUDPAddrPort(answer, from)
		}
	}
}
