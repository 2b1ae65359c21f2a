package prober

import (
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/history"
)

// freshPorts sends every query from a source port that no connection tracking
// entry is left of, so that each is a new flow to kube-proxy: it goes where the
// rules of that moment send it. Ports chosen at random would be used again
// within seconds at 1,000/s, and a used one stays pinned to the pod that it had
// then (kubernetes#129617); that is what the fixed ports are there to show.
type freshPorts struct {
	stream   Stream
	question question
	timeout  time.Duration
	clock    *history.Clock
	account  *account
	buffers  sync.Pool
	waiting  sync.WaitGroup
	next     int // the port that comes next, less firstFresh
}

// The range that fresh ports are taken from in turn. A single exchange is
// forgotten after 30 s (nf_conntrack_udp_timeout), so up to 1,800 queries/s none
// meets a port's earlier use.
const (
	firstFresh = 10000
	freshCount = 1<<16 - firstFresh
)

func newFreshPorts(s Stream, q question, timeout time.Duration, clock *history.Clock, a *account) *freshPorts {
	return &freshPorts{
		stream: s, question: q, timeout: timeout, clock: clock, account: a, next: rand.IntN(freshCount),
		buffers: sync.Pool{New: func() any { return new([maxAnswer]byte) }},
	}
}

func (f *freshPorts) send(_ int, at time.Duration) {
	q := history.Query{Target: f.stream.Target, Mode: history.Fresh, Intended: at}
	conn, port, err := f.open()
	if err != nil {
		f.account.failed(q, f.clock.Now(), err)
		return
	}
	id := uint16(rand.Uint32())
	q.Port, q.Sent = port, f.clock.Now()
	if _, err := conn.Write(f.question.withID(id)); err != nil {
		f.account.failed(q, f.clock.Now(), errors.Join(err, conn.Close()))
		return
	}
	f.waiting.Go(func() { f.await(conn, id, q) })
}

// open takes the next port that nobody else has.
func (f *freshPorts) open() (conn *net.UDPConn, port int, err error) {
	for range freshCount {
		port = firstFresh + f.next
		f.next = (f.next + 1) % freshCount
		conn, _, err = dial(f.stream.Server, port)
		if !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	return conn, port, err
}

// await reads until the answer came or the timeout passed. A message that does
// not fit is no end: a resolver goes on waiting for the true answer. Only where
// none comes does it tell what happened.
func (f *freshPorts) await(conn *net.UDPConn, id uint16, q history.Query) {
	buf := f.buffers.Get().(*[maxAnswer]byte)
	defer f.buffers.Put(buf)
	defer func() { _ = conn.Close() }()
	unanswered := history.Timeout
	err := conn.SetReadDeadline(f.clock.Start().Add(q.Sent + f.timeout))
	for err == nil {
		var n int
		if n, err = conn.Read(buf[:]); err != nil {
			break
		}
		if q.Outcome = f.question.judge(buf[:n], id); q.Outcome != history.Mismatch {
			f.account.settle(q, f.clock.Now())
			return
		}
		unanswered = history.Mismatch
	}
	q.Outcome = unanswered
	var message []byte
	if errors.Is(err, os.ErrDeadlineExceeded) {
		message, err = readWaiting(conn, buf[:])
	}
	switch {
	case err != nil:
		q.Outcome = history.ICMP
	case message != nil:
		q.Outcome = f.question.judge(message, id)
	}
	f.account.settle(q, f.clock.Now())
}

// finish waits for the fate of the last queries.
func (f *freshPorts) finish() { f.waiting.Wait() }
