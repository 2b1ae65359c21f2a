package prober

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/history"
)

// fixedPorts sends queries from a few long-lived ports, as a forwarder such as
// NodeLocal DNSCache does. The ports take turns: with each query, or with each
// tick's worth of queries, which then need one system call.
type fixedPorts struct {
	ports []*port
	turn  int // queries in a row from one port
}

func newFixedPorts(t *task, asked []*question) (*fixedPorts, error) {
	f := &fixedPorts{turn: min(max(1, t.stream.Rate/int(time.Second/tick)), batchSize)}
	for range t.stream.Ports {
		p, err := openPort(t, asked)
		if err != nil {
			f.close()
			return nil, err
		}
		f.ports = append(f.ports, p)
	}
	return f, nil
}

func (f *fixedPorts) send(from, to int) (next int) {
	for from < to {
		turn := from / f.turn
		end := min(to, (turn+1)*f.turn)
		if sent := f.ports[turn%len(f.ports)].send(from, end); sent < end {
			return sent
		}
		from = end
	}
	return to
}

func (f *fixedPorts) expire(now time.Duration) {
	for _, p := range f.ports {
		p.expire(now)
	}
}

func (f *fixedPorts) waiting() (n int) {
	for _, p := range f.ports {
		n += p.open
	}
	return n
}

func (f *fixedPorts) close() {
	for _, p := range f.ports {
		p.close()
	}
}

// port is a long-lived connected socket with any number of queries under way.
//
// The queries of a port are numbered. A multiplication maps numbers to ids and back. It
// keeps the ids of neighbours far apart: an answer with a wrong id must not look like
// the answer to another pending query.
type port struct {
	*task
	fd     int
	number int
	asked  []*question

	factor, inverse, shift uint16

	flights byNumber[flight]
	oldest  uint32 // the first that is remembered
	first   uint32 // the first that may be open
	next    uint32 // that of the next query
	open    int    // flights not yet settled
	strays  []time.Duration
	dropped uint32
}

type flight struct {
	intended, sent time.Duration
	question       uint16
	settled        bool
	mismatched     bool // an answer with its id, but to another question, came
}

func openPort(t *task, asked []*question) (*port, error) {
	fd, err := dial(t.stream.Server)
	if err != nil {
		return nil, err
	}
	p := &port{task: t, fd: fd, asked: asked, flights: make(byNumber[flight], batchSize)}
	p.factor, p.shift = randomID()|1, randomID()
	p.inverse = inverse(p.factor)
	if p.number, err = sourcePort(fd); err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1)
	}
	if err == nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
		err = t.loop.watch(fd, p)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set up socket to %s: %w", t.stream.Server, err), unix.Close(fd))
	}
	return p, nil
}

// inverse is the multiplicative inverse of an odd number modulo 2^16, by Newton's
// method: n itself has three correct bits, and every step doubles them.
func inverse(n uint16) uint16 {
	x := n
	for range 3 {
		x *= 2 - n*x
	}
	return x
}

func (p *port) id(number uint32) uint16 { return uint16(number)*p.factor + p.shift }

// of finds the query with an id among the remembered ones.
func (p *port) of(id uint16) *flight {
	number := (id - p.shift) * p.inverse
	back := uint32(uint16(p.next) - number)
	if back == 0 || back > p.next-p.oldest {
		return nil
	}
	return p.flights.at(p.next - back)
}

// send sends queries from..to of the stream and returns the first one that did not
// leave.
func (p *port) send(from, to int) int {
	out := p.loop.out
	for i := range to - from {
		out.put(i, p.asked[(from+i)%len(p.asked)].wire, p.id(p.next+uint32(i)))
	}
	for sent, tries := 0, 0; from < to; {
		began := p.loop.clock.Now()
		n, err := out.send(p.fd, sent, sent+to-from)
		ended := p.loop.clock.Now()
		switch {
		case err == nil:
			for i := range n {
				p.took(from+i, leftAt(began, ended, i, n))
			}
			sent, from, tries = sent+n, from+n, 0
		case full(err):
			p.account.trouble(err)
			return from
		case unreachable(err) && tries < 3:
			// Instead of sending, a write may return the error of an earlier query, and on
			// a busy machine one after another. Counting this query as lost would move the
			// end of an outage. An error that nothing was reported for is this query's own.
			if p.settleReported() == 0 {
				tries++
			}
		default:
			p.account.failed(history.Query{Port: p.number, Intended: p.intended(from)}, began, err)
			p.took(from, began)
			p.flights.at(p.next - 1).settled = true
			p.open--
			sent, from, tries = sent+1, from+1, 0
		}
	}
	return to
}

// took records that query i of the stream has left.
func (p *port) took(i int, sent time.Duration) {
	if int(p.next-p.oldest) == len(p.flights) {
		p.flights = p.flights.grown(p.oldest, p.next)
	}
	*p.flights.at(p.next) = flight{intended: p.intended(i), sent: sent, question: uint16(i % len(p.asked))}
	p.next++
	p.open++
}

func (p *port) receive(fd int) {
	p.settleReported()
	in := p.loop.in
	for n := batchSize; n == batchSize; {
		var err error
		if n, err = in.receive(fd); err != nil {
			return // its error was reported, or the next query will show it
		}
		for i := range n {
			at, dropped := in.arrived(i)
			if dropped > p.dropped {
				p.account.count(&p.account.dropped, int(dropped-p.dropped))
				p.dropped = dropped
			}
			p.take(in.message(i), p.loop.arrived(at))
		}
	}
}

func (p *port) take(message []byte, at time.Duration) {
	id, _ := idOf(message)
	f := p.of(id)
	switch {
	case f == nil:
		if len(p.strays) < p.open {
			p.strays = append(p.strays, at)
		}
		return
	case f.settled || at-f.sent > p.timeout: // late, or a duplicate: it means nothing for newer queries
		p.account.count(&p.account.ignored, 1)
		return
	}
	outcome := p.asked[f.question].judge(message, id)
	if outcome == history.Mismatch {
		f.mismatched = true
		return
	}
	p.settle(f, outcome, at)
}

// settleReported settles the queries that ICMP errors quote. On a port with several
// pending queries nothing else shows which query failed: "host unreachable" arrives
// seconds later, when newer queries may succeed. It returns the number of errors.
func (p *port) settleReported() (n int) {
	in := p.loop.in
	for ; in.receiveReported(p.fd); n++ {
		id, ok := idOf(in.message(0))
		if f := p.of(id); ok && f != nil && !f.settled {
			p.settle(f, history.ICMP, p.loop.clock.Now())
		}
	}
	return n
}

// expire settles the queries whose timeout has passed and forgets ids that may be
// used again.
func (p *port) expire(now time.Duration) {
	for ; p.first != p.next; p.first++ {
		f := p.flights.at(p.first)
		if f.settled {
			continue
		}
		if f.sent+p.timeout >= now {
			break
		}
		p.settle(f, p.unanswered(f), now)
	}
	for p.oldest != p.first && p.flights.at(p.oldest).sent+p.timeout+rememberFor < now {
		p.oldest++
	}
}

// unanswered is the outcome of a query without an answer: a timeout, or a mismatch if
// an answer arrived that did not fit. A message with an unknown id counts for the
// oldest query that was pending when it arrived and never got a better one.
func (p *port) unanswered(f *flight) history.Outcome {
	if f.mismatched {
		return history.Mismatch
	}
	for len(p.strays) > 0 && p.strays[0] < f.sent {
		p.strays = p.strays[1:]
	}
	if len(p.strays) == 0 {
		return history.Timeout
	}
	p.strays = p.strays[1:]
	return history.Mismatch
}

func (p *port) settle(f *flight, outcome history.Outcome, at time.Duration) {
	f.settled = true
	p.open--
	p.account.settle(history.Query{Port: p.number, Intended: f.intended, Sent: min(f.sent, at), Done: at, Outcome: outcome})
}

func (p *port) close() { _ = unix.Close(p.fd) }
