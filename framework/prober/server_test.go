package prober

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/spotdrill/spotdrill/framework/history"
)

// dnsServer is a real DNS server on loopback that counts who asked.
type dnsServer struct {
	addr netip.AddrPort

	mu    sync.Mutex
	asked map[int]int // queries by source port
}

// startServer answers with what reply makes of each query; nil is silence.
func startServer(t *testing.T, reply func(query *dns.Msg) *dns.Msg) *dnsServer {
	t.Helper()
	conn, listener := listenOnOnePort(t)
	_ = conn.SetReadBuffer(4 << 20) // the server's losses are not what is tested
	s := &dnsServer{addr: conn.LocalAddr().(*net.UDPAddr).AddrPort(), asked: map[int]int{}}
	started := make(chan struct{})
	server := &dns.Server{
		PacketConn:        conn,
		NotifyStartedFunc: func() { close(started) },
		Handler: dns.HandlerFunc(func(w dns.ResponseWriter, query *dns.Msg) {
			s.mu.Lock()
			s.asked[int(netip.MustParseAddrPort(w.RemoteAddr().String()).Port())]++
			s.mu.Unlock()
			if m := reply(query); m != nil {
				_ = w.WriteMsg(m)
			}
		}),
	}
	go func() { _ = server.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = server.Shutdown() })
	overTCP := &dns.Server{Listener: listener, Handler: server.Handler}
	go func() { _ = overTCP.ActivateAndServe() }()
	t.Cleanup(func() { _ = listener.Close() })
	return s
}

// listenOnOnePort takes a port that is free for UDP and for TCP: the kernel
// picks one for the first alone, which a connection of another test may hold.
func listenOnOnePort(t *testing.T) (*net.UDPConn, net.Listener) {
	t.Helper()
	var taken error
	for range 50 {
		conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
		if err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", conn.LocalAddr().String())
		if err == nil {
			return conn, listener
		}
		taken = err
		_ = conn.Close()
	}
	t.Fatalf("no port is free for both UDP and TCP in 50 attempts: %v", taken)
	return nil, nil
}

func (s *dnsServer) ports() map[int]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.asked)
}

// answer is what a healthy server replies.
func answer(query *dns.Msg) *dns.Msg {
	m := new(dns.Msg).SetReply(query)
	m.Answer = append(m.Answer, &dns.A{
		Hdr: dns.RR_Header{Name: query.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 5},
		A:   net.IPv4(10, 0, 0, 1),
	})
	return m
}

func silence(*dns.Msg) *dns.Msg { return nil }

// closedPort is an address on loopback at which nothing listens. Its IP is one
// that no other socket of these tests has, so that none takes the port.
func closedPort(t *testing.T) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.2:0")))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

// run probes and returns every query, after it checked what holds for any probe.
func run(t *testing.T, ctx context.Context, plan Plan) (Summary, []history.Query) {
	t.Helper()
	return runOn(t, ctx, plan, history.NewClock())
}

func runOn(t *testing.T, ctx context.Context, plan Plan, clock *history.Clock) (Summary, []history.Query) {
	t.Helper()
	var queries, echoes []history.Query
	summary, err := Run(ctx, plan, clock, func(q history.Query) {
		if q.Target == history.Echo {
			echoes = append(echoes, q)
		} else {
			queries = append(queries, q)
		}
	})
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	if summary.Echo.Asked != len(echoes) || len(echoes) == 0 {
		t.Errorf("the summary shows %d asked of the echo, the sink got %d", summary.Echo.Asked, len(echoes))
	}
	wantOnly(t, summary.Echo, history.Answered)
	if summary.Asked != len(queries) {
		t.Errorf("the summary shows %d asked, the sink got %d", summary.Asked, len(queries))
	}
	outcomes := map[history.Outcome]int{}
	for _, q := range queries {
		outcomes[q.Outcome]++
		if q.Outcome == history.Unsent {
			continue
		}
		refused := q.Outcome == history.ICMP && (q.Mode == history.Connect || q.Mode == history.Kept)
		if q.Sent < q.Intended || q.Done < q.Sent || q.Port == 0 && !refused {
			t.Errorf("out of order, or without a port: %+v", q)
		}
		if q.Sent-q.Intended > Tolerance+time.Second { // a busy machine may halt it between the check and the sending
			t.Errorf("left too late, should be unsent: %+v", q)
		}
		if q.Outcome == history.Timeout && q.Done-q.Sent < plan.timeout() {
			t.Errorf("timed out too early: %+v", q)
		}
	}
	for outcome, n := range outcomes {
		if summary.Outcomes[outcome] != n {
			t.Errorf("the summary shows %d %s, the sink got %d", summary.Outcomes[outcome], outcome, n)
		}
	}
	if unsent := outcomes[history.Unsent]; unsent != summary.Unsent || (unsent > 0) != (summary.Behind != "") {
		t.Errorf("%d unsent, but the summary shows %d, %q", unsent, summary.Unsent, summary.Behind)
	}
	return summary, queries
}

// written is the summary of what a ledger's accounts have settled so far.
func written(l *ledger) Summary {
	for _, a := range l.accounts {
		_ = a.handOver()
	}
	settled := make(chan struct{})
	close(settled)
	l.write(settled)
	return l.summary()
}

// wantOnly allows no outcome but one. Queries may be unsent, but only where this
// machine, which may be busy with other work, really was behind.
func wantOnly(t *testing.T, f Figures, want history.Outcome) {
	t.Helper()
	if f.Outcomes[want] == 0 || f.Outcomes[want]+f.Unsent != f.Asked {
		t.Errorf("got %v, want only %s", f.Outcomes, want)
	}
	if f.Unsent > 0 && f.LateMax <= Tolerance {
		t.Errorf("%d unsent, but nothing was later than %v", f.Unsent, f.LateMax)
	}
}
