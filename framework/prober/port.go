package prober

import (
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

const (
	// rememberFor is how long after its timeout a query's id is kept from being
	// used again on its port, so that a late answer is known as one.
	rememberFor = 10 * time.Second
	// maxRememberedIDs keeps half of the 65,536 ids free to choose from.
	maxRememberedIDs = 1 << 15
)

// port is a long-lived connected socket with any number of queries under way.
type port struct {
	conn     *net.UDPConn
	number   int
	stream   Stream
	question question
	timeout  time.Duration
	clock    *history.Clock
	account  *account
	done     chan struct{} // closed when listen has returned

	mu         sync.Mutex
	byID       map[uint16]*flight
	waiting    []*flight       // in the order they were sent; some are settled
	remembered []*flight       // the same, until rememberFor after their timeout
	open       int             // flights not yet settled
	strays     []time.Duration // when messages came that fit no query
	stopping   bool
}

// flight is a query that was sent.
type flight struct {
	id         uint16
	query      history.Query
	settled    bool
	mismatched bool // an answer with its id, but to another question, came
}

func openPort(s Stream, q question, timeout time.Duration, clock *history.Clock, a *account) (*port, error) {
	conn, number, err := dial(s.Server, 0)
	if err != nil {
		return nil, err
	}
	return &port{
		conn: conn, number: number, stream: s, question: q, timeout: timeout, clock: clock, account: a,
		done: make(chan struct{}), byID: map[uint16]*flight{},
	}, nil
}

func (p *port) send(at time.Duration) {
	f := &flight{query: history.Query{Target: p.stream.Target, Mode: history.Fixed, Port: p.number, Intended: at}}
	p.mu.Lock()
	f.id = uint16(rand.Uint32())
	for p.byID[f.id] != nil {
		f.id = uint16(rand.Uint32())
	}
	f.query.Sent = p.clock.Now()
	p.byID[f.id] = f
	p.waiting = append(p.waiting, f)
	p.remembered = append(p.remembered, f)
	p.open++
	p.mu.Unlock()

	packet := p.question.withID(f.id)
	_, err := p.conn.Write(packet)
	// A write also returns, instead of sending, an error that an earlier query
	// brought about. Those are taken away first, then it is this one's own.
	for try := 0; err != nil && unreachable(err) && try < 3; try++ {
		p.settleReported()
		_, err = p.conn.Write(packet)
	}
	if err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !f.settled {
		f.settled = true
		p.open--
		p.account.failed(f.query, p.clock.Now(), err)
	}
}

// listen settles the port's queries until stop was called and none is open.
func (p *port) listen() {
	defer close(p.done)
	buf := make([]byte, maxAnswer)
	p.expire()
	for !p.finished() {
		n, err := p.conn.Read(buf)
		switch {
		case err == nil:
			p.receive(buf[:n])
		case errors.Is(err, os.ErrDeadlineExceeded):
			p.receiveWaiting(buf)
			p.expire()
		default:
			p.settleReported()
		}
	}
}

// receiveWaiting takes what came in time but was not read in time.
func (p *port) receiveWaiting(buf []byte) {
	p.settleReported()
	for {
		message, err := readWaiting(p.conn, buf)
		switch {
		case err != nil:
			p.settleReported()
		case message != nil:
			p.receive(message)
		default:
			return
		}
	}
}

// stop tells listen that no more queries will be sent.
func (p *port) stop() {
	p.mu.Lock()
	p.stopping = true
	p.mu.Unlock()
	_ = p.conn.SetReadDeadline(time.Now()) // wakes it; expire sets the next one
}

func (p *port) finished() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopping && p.open == 0
}

func (p *port) receive(message []byte) {
	now := p.clock.Now()
	id, _ := idOf(message)
	outcome := p.question.judge(message, id)
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.byID[id]
	switch {
	case f != nil && f.settled: // late, or a duplicate: it says nothing of newer queries
		p.account.ignore()
	case f != nil && outcome == history.Mismatch:
		f.mismatched = true
	case f != nil:
		p.settle(f, outcome, now)
	case len(p.strays) < p.open:
		p.strays = append(p.strays, now)
	}
}

// settleReported settles the queries that ICMP errors name.
func (p *port) settleReported() {
	ids := reportedIDs(p.conn)
	now := p.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		if f := p.byID[id]; f != nil && !f.settled {
			p.settle(f, history.ICMP, now)
		}
	}
}

// expire settles the queries whose timeout has passed, forgets ids that may be
// used again, and sets the deadline of the next read. A query sent while none
// is waiting cannot time out before that deadline either.
func (p *port) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	next := now + p.timeout
	for ; len(p.waiting) > 0; p.waiting = p.waiting[1:] {
		f := p.waiting[0]
		if f.settled {
			continue
		}
		if end := f.query.Sent + p.timeout; end > now {
			next = end
			break
		}
		p.settle(f, p.unanswered(f), now)
	}
	for len(p.remembered) > 0 && p.remembered[0].query.Sent+p.timeout+rememberFor < now {
		delete(p.byID, p.remembered[0].id)
		p.remembered = p.remembered[1:]
	}
	_ = p.conn.SetReadDeadline(p.clock.Start().Add(next))
}

// unanswered tells a timeout from a query that got an answer which did not fit.
// A message with an unknown id belongs to the oldest query that was under way
// when it came and never got a better one.
func (p *port) unanswered(f *flight) history.Outcome {
	if f.mismatched {
		return history.Mismatch
	}
	for len(p.strays) > 0 && p.strays[0] < f.query.Sent {
		p.strays = p.strays[1:]
	}
	if len(p.strays) == 0 {
		return history.Timeout
	}
	p.strays = p.strays[1:]
	return history.Mismatch
}

func (p *port) settle(f *flight, outcome history.Outcome, now time.Duration) {
	f.settled = true
	p.open--
	f.query.Outcome = outcome
	p.account.settle(f.query, now)
}
