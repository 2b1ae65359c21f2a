package prober

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// connections sends queries over TCP: each over its own connection, or over a few that
// are kept. A query leaves when its connection is requested, because a client also waits
// for the connection. Every connection has a goroutine, which is cheap at the rates at
// which TCP is measured.
type connections struct {
	overTCP
	asked  []*question
	kept   []*slot
	dialed map[*connection]struct{} // connections not closed
}

type request struct {
	history.Query
	question int
}

func newConnections(t *task, asked []*question) *connections {
	c := &connections{overTCP: newOverTCP(t), asked: asked, dialed: map[*connection]struct{}{}}
	for range t.stream.Ports {
		c.kept = append(c.kept, new(slot))
	}
	return c
}

func (c *connections) send(from, to int) (next int) {
	for i := from; i < to; i++ {
		in := &slot{once: true}
		if len(c.kept) > 0 {
			in = c.kept[i%len(c.kept)]
		}
		c.begin(i, func(q history.Query) { c.sendQuery(in, request{q, i % len(c.asked)}) })
	}
	return to
}

func (c *connections) close() {
	c.mu.Lock()
	for k := range c.dialed {
		_ = k.conn.Close()
	}
	c.mu.Unlock()
	c.ended.Wait()
}

// judge is the outcome of an answer to r. A question caches answers, and many
// connections share it.
func (c *connections) judge(r request, answer []byte, id uint16) history.Outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[r.question].judge(answer, id)
}

// slot is the place of a kept connection. When the connection breaks or a request on it
// times out, the next request makes another.
type slot struct {
	once bool // for one query, not to be kept

	mu  sync.Mutex
	now *connection
}

// leave makes the next request open another connection.
func (s *slot) leave(k *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == k {
		s.now = nil
	}
}

type connection struct {
	of   *connections
	in   *slot
	conn net.Conn
	port int

	mu      sync.Mutex
	pending map[uint16]request
	next    uint16
	broken  bool
}

// sendQuery sends a request on the slot's connection, which it opens if needed.
func (c *connections) sendQuery(in *slot, r request) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.now == nil {
		conn, port, err := c.dial(r.Query)
		if err != nil {
			r.Port = port
			c.settle(r.Query, notConnected(err), err)
			return
		}
		in.now = c.keep(in, conn)
	}
	in.now.write(r)
}

func (c *connections) keep(in *slot, conn net.Conn) *connection {
	if in.once {
		endWithReset(conn)
	}
	k := &connection{of: c, in: in, conn: conn, port: conn.LocalAddr().(*net.TCPAddr).Port, pending: map[uint16]request{}, next: randomID()}
	c.mu.Lock()
	c.dialed[k] = struct{}{}
	c.mu.Unlock()
	c.ended.Go(k.read)
	return k
}

func (k *connection) write(r request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r.Port = k.port
	if k.broken { // its reader has just found out
		k.of.settle(r.Query, history.ICMP, nil)
		return
	}
	k.next += idStep
	k.pending[k.next] = r
	wire := k.of.asked[r.question].wire
	packet := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(wire)), uint16(len(wire)))
	packet = append(packet, wire...)
	binary.BigEndian.PutUint16(packet[2:], k.next)
	_ = k.conn.SetWriteDeadline(k.of.deadline(r.Query))
	_ = k.conn.SetReadDeadline(k.first())
	if _, err := k.conn.Write(packet); err != nil {
		_ = k.conn.Close() // its reader settles what is pending
	}
}

// read settles requests until the connection breaks, or until the last request of a
// connection that is no longer kept is settled.
func (k *connection) read() {
	length, answer := make([]byte, 2), make([]byte, 1<<16)
	for {
		_, err := io.ReadFull(k.conn, length)
		message := answer[:binary.BigEndian.Uint16(length)]
		if err == nil {
			_, err = io.ReadFull(k.conn, message)
		}
		switch {
		case err == nil:
			k.take(message)
		case errors.Is(err, os.ErrDeadlineExceeded):
			k.in.leave(k)
			k.expire()
		default:
			k.in.leave(k)
			k.end(history.ICMP)
			return
		}
		if (err != nil || k.in.once) && k.done() {
			k.end(history.Timeout)
			return
		}
	}
}

// idStep keeps the ids of successive requests far apart: an answer with a wrong id must
// not look like the next request's. It is odd, so that every id is used.
const idStep = 40503

// take settles the request of an answer. An answer that fits no request is ignored,
// unless there is only one request that it can be for.
func (k *connection) take(message []byte) {
	id, _ := idOf(message)
	k.mu.Lock()
	defer k.mu.Unlock()
	r, ok := k.pending[id]
	switch {
	case ok:
		delete(k.pending, id)
		k.of.settle(r.Query, k.of.judge(r, message, id), nil)
	case k.in.once:
		for id, r := range k.pending {
			delete(k.pending, id)
			k.of.settle(r.Query, history.Mismatch, nil)
		}
	default:
		k.of.account.count(&k.of.account.ignored, 1)
	}
	_ = k.conn.SetReadDeadline(k.first())
}

func (k *connection) expire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for id, r := range k.pending {
		if !k.of.deadline(r.Query).After(now) {
			delete(k.pending, id)
			k.of.settle(r.Query, history.Timeout, nil)
		}
	}
	_ = k.conn.SetReadDeadline(k.first())
}

// first is when the first pending request times out; never if there is none.
func (k *connection) first() (at time.Time) {
	for _, r := range k.pending {
		if d := k.of.deadline(r.Query); at.IsZero() || d.Before(at) {
			at = d
		}
	}
	return at
}

func (k *connection) done() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.pending) == 0
}

func (k *connection) end(outcome history.Outcome) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broken = true
	_ = k.conn.Close()
	for id, r := range k.pending {
		delete(k.pending, id)
		k.of.settle(r.Query, outcome, nil)
	}
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	delete(k.of.dialed, k)
}
