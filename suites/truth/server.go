package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// server is a DNS server whose outages are known exactly: a query counts from when it
// reached the kernel, not from when this process read it.
type server struct {
	options
	at *net.UDPAddr

	mu     sync.Mutex
	conn   *net.UDPConn
	opened time.Duration // when conn was certainly open
	plan   []outage      // CLOCK_MONOTONIC
	truth  []played
}

const (
	name       = "truth.example."
	bufferSize = 4 << 20
	batch      = 64
)

// options are how a server differs from one that is as good as can be.
type options struct {
	ip     net.IP
	buffer int // bytes, of its socket; 0 for the system's default
}

func startServer(ctx context.Context, o options) (*server, error) {
	var err error
	// Ports that no client sends from: while the server's socket is closed, a client
	// could otherwise take its port.
	for port := 5400; port < 10000; port++ {
		s := &server{options: o, at: &net.UDPAddr{IP: o.ip, Port: port}}
		if err = s.open(); err == nil {
			go s.serve(ctx)
			return s, nil
		}
	}
	return nil, err
}

func (s *server) address() string { return s.at.String() }

func (s *server) open() error {
	conn, err := net.ListenUDP("udp4", s.at)
	opened := monotonic()
	if err != nil {
		return fmt.Errorf("open the server's socket: %w", err)
	}
	if s.buffer > 0 {
		_ = conn.SetReadBuffer(s.buffer)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS_NEW, 1)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn, s.opened = conn, opened
	return errors.Join(err, failed)
}

// fail makes the server play outages from a moment on.
func (s *server) fail(from time.Duration, plan []outage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan, s.truth = nil, nil
	for _, o := range plan {
		s.plan = append(s.plan, outage{o.kind, from + o.from, from + o.to})
	}
	_ = s.conn.SetReadDeadline(time.Now()) // so that it looks at the plan
}

// played are the actual outages.
func (s *server) played() []played {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]played(nil), s.truth...)
}

func (s *server) failing(moment time.Duration) kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.plan {
		if o.from <= moment && moment < o.to && o.kind != refuses {
			return o.kind
		}
	}
	return ""
}

// next is the next outage that ends the socket, and whether its time has come.
func (s *server) next() (o outage, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := monotonic()
	for len(s.plan) > 0 && s.plan[0].to < now {
		if s.plan[0].kind != refuses {
			s.truth = append(s.truth, played{outage: s.plan[0]})
		}
		s.plan = s.plan[1:]
	}
	if len(s.plan) == 0 {
		return outage{}, false
	}
	return s.plan[0], s.plan[0].kind == refuses
}

func (s *server) serve(ctx context.Context) {
	defer func() { _ = s.conn.Close() }()
	a := newAnswerer()
	for ctx.Err() == nil {
		o, refusing := s.next()
		now := monotonic()
		wait := 50 * time.Millisecond
		if refusing {
			if wait = min(wait, o.from-now); wait <= 0 {
				if err := s.refuse(o, a.drain(s)); err != nil {
					fmt.Fprintln(os.Stderr, "truth: the server:", err)
					return
				}
				continue
			}
		}
		_ = s.conn.SetReadDeadline(time.Now().Add(wait))
		for a.round(s, 0) == nil {
			if refusing && monotonic() >= o.from {
				break
			}
		}
	}
}

// refuse closes the socket for an outage and records its actual times: queries that
// arrived after the socket was last seen empty may have been lost with it.
func (s *server) refuse(o outage, empty time.Duration) error {
	if err := s.conn.Close(); err != nil {
		return err
	}
	from := monotonic()
	time.Sleep(o.to - from)
	to := monotonic()
	if err := s.open(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.truth = append(s.truth, played{outage{refuses, from, to}, from - empty, s.opened - to})
	s.plan = s.plan[1:]
	return nil
}

// answerer takes queries in batches and answers each as of its arrival.
type answerer struct {
	of               *net.UDPConn
	conn             *ipv4.PacketConn // over of
	in, out          []ipv4.Message
	answer, servfail []byte
}

func newAnswerer() *answerer {
	a := new(answerer)
	for range batch {
		a.in = append(a.in, ipv4.Message{Buffers: [][]byte{make([]byte, 512)}, OOB: make([]byte, 128)})
	}
	query := new(dns.Msg).SetQuestion(name, dns.TypeA)
	reply := new(dns.Msg).SetReply(query)
	reply.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 30}, A: net.IPv4(10, 0, 0, 1)}}
	a.answer, _ = reply.Pack()
	a.servfail, _ = new(dns.Msg).SetRcode(query, dns.RcodeServerFailure).Pack()
	return a
}

// drain answers the queries that have arrived, and returns when there are no more.
func (a *answerer) drain(s *server) (empty time.Duration) {
	_ = s.conn.SetReadDeadline(time.Time{}) // an expired deadline forbids reading
	for {
		empty = monotonic()
		if a.round(s, unix.MSG_DONTWAIT) != nil {
			return empty
		}
	}
}

// round takes a batch of queries and answers them.
func (a *answerer) round(s *server, flags int) error {
	if a.of != s.conn {
		a.of, a.conn = s.conn, ipv4.NewPacketConn(s.conn)
	}
	n, err := a.conn.ReadBatch(a.in, flags)
	if err != nil {
		return err
	}
	wall, now := clocks()
	a.out = a.out[:0]
	for _, m := range a.in[:n] {
		if m.N < 12 {
			continue
		}
		text := a.answer
		switch s.failing(now + arrival(m.OOB[:m.NN], wall) - wall) {
		case silent:
			continue
		case fails:
			text = a.servfail
		case burns:
			for begun := monotonic(); monotonic()-begun < burnt; {
			}
		}
		reply := append([]byte(nil), text...)
		copy(reply, m.Buffers[0][:2])
		a.out = append(a.out, ipv4.Message{Buffers: [][]byte{reply}, Addr: m.Addr})
	}
	for out := a.out; len(out) > 0; {
		n, err := a.conn.WriteBatch(out, 0)
		if err != nil {
			n = 1 // the client is gone
		}
		out = out[n:]
	}
	return nil
}

// arrival is when a message reached the kernel, by the wall clock.
func arrival(oob []byte, otherwise time.Duration) time.Duration {
	for len(oob) >= unix.SizeofCmsghdr {
		header, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			break
		}
		if header.Level == unix.SOL_SOCKET && header.Type == unix.SO_TIMESTAMPNS_NEW && len(data) >= 16 {
			return time.Duration(binary.NativeEndian.Uint64(data))*time.Second + time.Duration(binary.NativeEndian.Uint64(data[8:]))
		}
		oob = rest
	}
	return otherwise
}

// clocks reads the wall clock, which the kernel uses for arrivals, and the monotonic one at
// the same moment: this process must not wait for the processor in between.
func clocks() (wall, now time.Duration) {
	for {
		before := monotonic()
		wall = time.Duration(time.Now().UnixNano())
		if now = monotonic(); now-before < slack/10 {
			return wall, now
		}
	}
}

// monotonic reads the clock of spotdrill's anchor.
func monotonic() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // always there
	return time.Duration(ts.Nano())
}
