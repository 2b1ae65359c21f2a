package prober

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/history"
)

// freshPorts sends every query from a source port without a connection tracking entry.
// So each is a new flow for kube-proxy and goes where the rules of that moment send it.
// At 1,000/s random ports would repeat within seconds, and a port with an entry stays
// pinned to its previous pod (kubernetes#129617). Fixed ports show that case.
//
// Ports are used in turn. With a ring of kept sockets, the socket of a port stays open
// for its next turn: to open and close one costs more than a query. For the same reason
// a socket is not connected, and is watched only if its query has no prompt answer.
type freshPorts struct {
	*task
	server *address
	asked  []*question
	ring   ring
	memory time.Duration // that of connection tracking

	sources []source // by place in the ring
	taken   int      // how many ports were taken in turn
	byFile  []uint16 // the place of each open file's port
	flights byNumber[single]
	first   uint32 // the first that may be open
	polled  uint32 // the first that was not polled
	next    uint32
	open    int
}

// prompt is when a query is polled: most have an answer by then.
const prompt = 5 * time.Millisecond

type source struct {
	fd      int32         // of its socket; 0 for none
	query   uint32        // the number of its latest query
	last    time.Duration // when its latest packet left or arrived
	drops   uint32        // of its socket, as far as they were counted
	earlier uint16        // the id of the query before the latest
	turns   uint8         // how many queries it sent: 0, 1, or 2 for more
	pending bool          // its latest query is not settled
	watched bool          // the loop knows its socket
}

// single is a query that was sent from a port of its own.
type single struct {
	flight
	place uint16
	id    uint16
}

func newFreshPorts(t *task, asked []*question, r ring) *freshPorts {
	return &freshPorts{
		task: t, server: newAddress(t.stream.Server), asked: asked, ring: r, memory: trackingMemory(),
		sources: make([]source, r.ports), byFile: make([]uint16, len(t.loop.owners)),
		flights: make(byNumber[single], 1<<bits.Len64(min(t.stream.sockets(t.timeout), uint64(r.ports)))),
	}
}

func (f *freshPorts) send(from, to int) (next int) {
	for ; from < to; from++ {
		intended := f.intended(from)
		place, err := f.take()
		if err == nil {
			err = f.sendQuery(place, from%len(f.asked), intended)
		}
		switch {
		case err == nil:
		case full(err):
			f.account.trouble(err)
			return from
		default:
			f.account.failed(history.Query{Port: f.ring.port(place), Intended: intended}, f.loop.clock.Now(), err)
		}
	}
	return to
}

// take returns the place of the next port that is not in use, and opens its socket.
func (f *freshPorts) take() (place int, err error) {
	err = unix.EADDRINUSE
	for range f.sources {
		place = f.taken % len(f.sources)
		f.taken++
		if s := &f.sources[place]; s.pending {
			continue
		} else if s.fd != 0 {
			return place, nil
		}
		if err = f.openSocket(place); !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	return place, err
}

func (f *freshPorts) openSocket(place int) error {
	fd, err := f.server.openFrom(f.ring.port(place))
	if err != nil {
		return fmt.Errorf("open socket to %s: %w", f.stream.Server, err)
	}
	for fd >= len(f.byFile) {
		f.byFile = append(f.byFile, 0)
	}
	f.byFile[fd] = uint16(place)
	s := &f.sources[place]
	s.fd, s.drops, s.watched = int32(fd), 0, false
	return nil
}

func (f *freshPorts) closeSocket(place int) {
	closeFile(int(f.sources[place].fd))
	f.sources[place].fd = 0
}

// sendQuery sends the query; on an error it closes the socket.
func (f *freshPorts) sendQuery(place, question int, intended time.Duration) error {
	s, id := &f.sources[place], randomID()
	f.loop.out.put(0, f.asked[question].wire, id)
	var began time.Duration
	for tries := 0; ; tries++ {
		began = f.loop.clock.Now()
		err := f.loop.out.sendOne(int(s.fd), f.server)
		if err == nil {
			break
		}
		// It may be the error of a query that was given up.
		if s.turns > 0 && unreachable(err) && tries < 3 {
			f.settleReported(place)
			continue
		}
		f.closeSocket(place)
		return err
	}
	sent := leftAt(began, f.loop.clock.Now(), 0, 1)
	if s.turns > 0 && began-s.last < f.memory {
		f.account.count(&f.account.reused, 1)
	}
	if int(f.next-f.first) == len(f.flights) {
		f.flights = f.flights.grown(f.first, f.next)
	}
	*f.flights.at(f.next) = single{flight: flight{intended: intended, sent: sent, question: uint16(question)}, place: uint16(place), id: id}
	s.query, s.last, s.turns, s.pending = f.next, sent, min(s.turns+1, 2), true
	f.next++
	f.open++
	return nil
}

// poll takes the answers to queries that were sent a moment ago. The loop watches the
// sockets of those that have none yet.
func (f *freshPorts) poll(now time.Duration) {
	for ; f.polled != f.next; f.polled++ {
		q := f.flights.at(f.polled)
		if q.settled {
			continue
		}
		if now-q.sent < prompt {
			return
		}
		s := &f.sources[q.place]
		for !q.settled && f.receiveOne(int(q.place)) {
		}
		if q.settled || s.watched {
			continue
		}
		if err := f.loop.watch(int(s.fd), f); err != nil {
			f.account.trouble(err)
			return
		}
		s.watched = true
	}
}

// receive takes a message that arrived for one query; if more have, the socket stays
// ready.
func (f *freshPorts) receive(fd int) { f.receiveOne(int(f.byFile[fd])) }

// receiveOne takes a message, and reports whether there was one. After a message that
// does not fit, a resolver continues to wait for the true answer; such a message decides
// the outcome only if no true answer comes.
func (f *freshPorts) receiveOne(place int) bool {
	s := &f.sources[place]
	in := f.loop.in
	if err := in.receiveOne(int(s.fd)); err != nil {
		if f.settleReported(place) == 0 && s.pending && unreachable(err) {
			f.settle(f.flights.at(s.query), history.ICMP, f.loop.clock.Now())
		}
		return false
	}
	if !f.server.sent(in) {
		return true
	}
	wall, _ := in.arrived(0)
	at := f.loop.arrived(wall)
	s.last = max(s.last, at)
	if !s.pending {
		f.account.count(&f.account.ignored, 1)
		return true
	}
	q := f.flights.at(s.query)
	if at-q.sent > f.timeout {
		f.account.count(&f.account.ignored, 1)
		return true
	}
	message := in.message(0)
	id, _ := idOf(message)
	outcome := f.asked[q.question].judge(message, q.id)
	switch {
	case outcome != history.Mismatch:
		f.settle(q, outcome, at)
	case s.turns > 1 && id == s.earlier && id != q.id: // the port's earlier query's
		f.account.count(&f.account.ignored, 1)
	default:
		q.mismatched = true
	}
	return true
}

// settleReported takes the ICMP errors that wait in a socket and returns how many there
// were. One that quotes an earlier query of the port means nothing for the latest one.
func (f *freshPorts) settleReported(place int) (n int) {
	s := &f.sources[place]
	for ; s.fd != 0 && f.loop.in.receiveReported(int(s.fd)); n++ {
		id, ok := idOf(f.loop.in.message(0))
		if q := f.flights.at(s.query); ok && s.pending && id == q.id {
			f.settle(q, history.ICMP, f.loop.clock.Now())
		}
	}
	return n
}

func (f *freshPorts) expire(now time.Duration) {
	f.poll(now)
	for ; f.first != f.next; f.first++ {
		q := f.flights.at(f.first)
		if q.settled {
			continue
		}
		if q.sent+f.timeout >= now {
			break
		}
		outcome := history.Timeout
		if q.mismatched {
			outcome = history.Mismatch
		}
		s := &f.sources[q.place]
		if n := drops(int(s.fd)); n > s.drops {
			f.account.count(&f.account.dropped, int(n-s.drops))
			s.drops = n
		}
		f.settle(q, outcome, now)
	}
}

func (f *freshPorts) settle(q *single, outcome history.Outcome, at time.Duration) {
	q.settled = true
	f.open--
	place := int(q.place)
	s := &f.sources[place]
	s.pending, s.earlier = false, q.id
	if !f.ring.keeps(place) {
		f.closeSocket(place)
	}
	f.account.settle(history.Query{Port: f.ring.port(place), Intended: q.intended, Sent: min(q.sent, at), Done: at, Outcome: outcome})
}

func (f *freshPorts) waiting() int { return f.open }

func (f *freshPorts) close() {
	for place := range f.sources {
		if f.sources[place].fd != 0 {
			f.closeSocket(place)
		}
	}
}
