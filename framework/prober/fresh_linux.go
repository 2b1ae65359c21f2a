package prober

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/history"
)

// freshPorts sends every query from a source port without a connection tracking entry.
// So each is a new flow for kube-proxy and goes where the rules of that moment send it.
// At 1,000/s random ports would repeat within seconds, and a port with an entry stays
// pinned to its previous pod (kubernetes#129617). Fixed ports show that case.
type freshPorts struct {
	loop    *loop
	stream  QueryStream
	asked   []*question
	timeout time.Duration
	account *account
	turns   turns

	byFile  []uint32 // the number of the query that each open file is for
	flights []single // a ring by number, its length a power of two
	first   uint32   // the first that may be open
	next    uint32
	open    int
}

// single is a query that was sent from a port of its own.
type single struct {
	flight
	fd, port int
	id       uint16
}

// The range of fresh ports, which are used in turn. Connection tracking drops the entry
// of a single exchange after nf_conntrack_udp_timeout, so up to 1,850 queries/s no port
// still has an entry.
const (
	firstFresh     = 10000
	freshCount     = 1<<16 - firstFresh
	forgottenAfter = 30 * time.Second
)

// turns hands out the ports of the range in turn and begins at a random one.
type turns struct {
	first, taken int
	began        time.Duration // when the round did
	again        bool          // its ports were used less than forgottenAfter before
}

func newTurns() turns { return turns{first: rand.IntN(freshCount)} }

func (t *turns) next(now time.Duration) (port int) {
	if t.taken%freshCount == 0 {
		t.again = t.taken > 0 && now-t.began < forgottenAfter
		t.began = now
	}
	port = firstFresh + (t.first+t.taken)%freshCount
	t.taken++
	return port
}

func newFreshPorts(l *loop, s QueryStream, asked []*question, timeout time.Duration, a *account) *freshPorts {
	return &freshPorts{
		loop: l, stream: s, asked: asked, timeout: timeout, account: a,
		turns: newTurns(), byFile: make([]uint32, len(l.owners)), flights: make([]single, 1<<bits.Len64(s.sockets(timeout))),
	}
}

func (f *freshPorts) send(from, to int) (next int) {
	for ; from < to; from++ {
		intended := f.loop.base + schedule{f.stream.Rate}.intended(from)
		fd, port, err := f.dial()
		if err == nil {
			err = f.sendQuery(fd, port, from%len(f.asked), intended)
		}
		switch {
		case err == nil:
			if f.turns.again {
				f.account.reuse()
			}
		case full(err):
			f.account.trouble(err)
			return from
		default:
			f.account.failed(history.Query{Port: port, Intended: intended}, f.loop.clock.Now(), err)
		}
	}
	return to
}

// dial takes the next port that no other socket uses.
func (f *freshPorts) dial() (fd, port int, err error) {
	for range freshCount {
		port = f.turns.next(f.loop.clock.Now())
		fd, err = dial(f.stream.Server, port)
		if !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	return fd, port, err
}

// sendQuery sends the query; on an error it closes the socket.
func (f *freshPorts) sendQuery(fd, port, question int, intended time.Duration) error {
	id := randomID()
	f.loop.out.put(0, f.asked[question].wire, id)
	err := f.loop.watch(fd, f)
	began := f.loop.clock.Now()
	if err == nil {
		_, err = f.loop.out.send(fd, 0, 1)
	}
	sent := leftAt(began, f.loop.clock.Now(), 0, 1)
	if err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	if int(f.next-f.first) == len(f.flights) {
		f.grow()
	}
	*f.at(f.next) = single{flight: flight{intended: intended, sent: sent, question: uint16(question)}, fd: fd, port: port, id: id}
	for fd >= len(f.byFile) {
		f.byFile = append(f.byFile, 0)
	}
	f.byFile[fd] = f.next
	f.next++
	f.open++
	return nil
}

func (f *freshPorts) at(number uint32) *single { return &f.flights[int(number)&(len(f.flights)-1)] }

func (f *freshPorts) grow() {
	bigger := make([]single, 2*len(f.flights))
	for n := f.first; n != f.next; n++ {
		bigger[int(n)&(len(bigger)-1)] = *f.at(n)
	}
	f.flights = bigger
}

// receive takes the messages that arrived for one query. After a message that does not
// fit, a resolver continues to wait for the true answer; such a message decides the
// outcome only if no true answer comes.
func (f *freshPorts) receive(fd int) {
	q := f.at(f.byFile[fd])
	in := f.loop.in
	n, err := in.receive(fd)
	if err != nil && unreachable(err) {
		f.settle(q, history.ICMP, f.loop.clock.Now())
		return
	}
	for i := range n {
		wall, _ := in.arrived(i)
		at := f.loop.arrived(wall)
		if at-q.sent > f.timeout {
			f.account.ignore()
			continue
		}
		outcome := f.asked[q.question].judge(in.message(i), q.id)
		if outcome != history.Mismatch {
			f.settle(q, outcome, at)
			return
		}
		q.mismatched = true
	}
}

func (f *freshPorts) expire(now time.Duration) {
	for ; f.first != f.next; f.first++ {
		q := f.at(f.first)
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
		if n := drops(q.fd); n > 0 {
			f.account.dropped(n)
		}
		f.settle(q, outcome, now)
	}
}

func (f *freshPorts) settle(q *single, outcome history.Outcome, at time.Duration) {
	q.settled = true
	f.open--
	_ = unix.Close(q.fd)
	f.account.settle(history.Query{Port: q.port, Intended: q.intended, Sent: min(q.sent, at), Done: at, Outcome: outcome})
}

func (f *freshPorts) waiting() int { return f.open }

func (f *freshPorts) close() {
	for ; f.first != f.next; f.first++ {
		if q := f.at(f.first); !q.settled {
			_ = unix.Close(q.fd)
		}
	}
}
