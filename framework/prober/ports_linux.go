package prober

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/history"
)

// overTCP is what streams over TCP have in common. A query leaves when its connection is requested,
// because a client also waits for the connection. Source ports take turns like fresh ports, so that a
// connection's port shows to which pod it went.
type overTCP struct {
	*task
	ended sync.WaitGroup

	mu    sync.Mutex
	turns turns
	open  int // queries not settled
}

func newOverTCP(t *task) overTCP { return overTCP{task: t, turns: newTurns()} }

// begin sends query i of the stream in a goroutine, which is cheap at the rates at which TCP is measured.
func (o *overTCP) begin(i int, send func(history.Query)) {
	q := history.Query{Intended: o.intended(i), Sent: o.loop.clock.Now()}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open++
	o.ended.Go(func() { send(q) })
}

// expire has nothing to do: every connection has a deadline.
func (o *overTCP) expire(time.Duration) {}

func (o *overTCP) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.open
}

func (o *overTCP) deadline(q history.Query) time.Time {
	return o.loop.clock.Start().Add(q.Sent + o.timeout)
}

// settle settles a query; err is why it is unsent.
func (o *overTCP) settle(q history.Query, outcome history.Outcome, err error) {
	if outcome == history.Unsent {
		o.account.unsent(q.Intended, o.loop.clock.Now(), err)
	} else {
		q.Done, q.Outcome = o.loop.clock.Now(), outcome
		o.account.settle(q)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open--
}

// dial opens a connection for a query. The port is bound first, so that it is known even if the
// connection fails.
func (o *overTCP) dial(q history.Query) (conn net.Conn, port int, err error) {
	dialer := net.Dialer{Deadline: o.deadline(q), Control: func(network, _ string, socket syscall.RawConn) (err error) {
		port, err = o.bind(network, socket)
		return err
	}}
	conn, err = dialer.Dial("tcp", o.stream.Server.String())
	return conn, port, err
}

// bind takes the next port that no other socket uses.
func (o *overTCP) bind(network string, socket syscall.RawConn) (port int, err error) {
	family := unix.AF_INET
	if network == "tcp6" {
		family = unix.AF_INET6
	}
	failed := socket.Control(func(fd uintptr) {
		for range freshCount {
			o.mu.Lock()
			port = o.turns.next(o.loop.clock.Now())
			o.mu.Unlock()
			if err = unix.Bind(int(fd), anywhere(family, port)); !errors.Is(err, unix.EADDRINUSE) {
				return
			}
		}
	})
	return port, errors.Join(failed, err)
}

// endWithReset makes a connection end with a reset (RST), which frees the port. After a FIN the
// kernel would reserve the port for a minute (TIME_WAIT): at 930/s all ports would be reserved
// within a minute. What was sent is settled by then.
func endWithReset(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0) }

// notConnected is the outcome of what was to be sent on a connection that could not be made:
// lost if the network or the server is the cause, unsent if this machine is.
func notConnected(err error) history.Outcome {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, unix.ETIMEDOUT):
		return history.Timeout
	case unreachable(err), errors.Is(err, unix.ECONNRESET):
		return history.ICMP
	}
	return history.Unsent
}

// The range of fresh ports, which are used in turn: up to 1,850 queries/s no port still
// has a connection tracking entry.
const (
	firstFresh = 10000
	freshCount = 1<<16 - firstFresh
)

// leastMemory is how long connection tracking remembers a single exchange, unless a node
// has another nf_conntrack_udp_timeout.
const leastMemory = 30 * time.Second

// trackingMemory is how long connection tracking remembers a single exchange, as far as
// this network namespace shows it.
func trackingMemory() time.Duration {
	text, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_udp_timeout")
	if err != nil {
		return leastMemory
	}
	seconds, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return leastMemory
	}
	return max(leastMemory, time.Duration(seconds)*time.Second)
}

// ring is the fresh ports of a stream, in the order of their turns.
type ring struct {
	first, ports int
	kept         int // how many of them keep their socket for the next turn
}

// anyPort is the whole range from a random place on, with a socket for each query.
func anyPort() ring { return ring{first: rand.IntN(freshCount), ports: freshCount} }

func (r ring) port(place int) int { return firstFresh + (r.first+place)%freshCount }

// unkept is the share of ports whose sockets are never kept, one in so many: a large ring
// has most of the ports that this machine gives to programs that ask for any.
const unkept = 16

func (r ring) keeps(place int) bool { return place < r.kept && r.port(place)%unkept != 0 }

// rings are the ports of each stream, for at most that many open files. Sockets are kept
// if that saves opening any, and if every fresh stream can have ports of its own.
func (p Plan) rings(files uint64) []ring {
	rings, sum, worth := make([]ring, len(p.Streams)), 0, false
	at, spare := rand.IntN(freshCount), max(0, int(files)-int(openFiles(p)))
	for i, s := range p.Streams {
		if s.Mode != history.Fresh {
			continue
		}
		turn := trackingMemory() + p.timeout() + time.Second // an answer prolongs an entry
		ports := min(freshCount, int(int64(s.Rate)*int64(turn)/int64(time.Second))+1)
		// Those that wait for an answer are counted already.
		rings[i] = ring{first: (at + sum) % freshCount, ports: ports, kept: min(ports, spare)}
		spare -= rings[i].kept
		sum += ports
		worth = worth || schedule{s.Rate}.due(p.For-1) > ports
	}
	if worth && sum <= freshCount {
		return rings
	}
	for i := range rings {
		rings[i] = anyPort()
	}
	return rings
}

// turns hands out the whole range in turn, for connections, and begins at a random port.
type turns struct {
	first, taken int
	began        time.Duration // when the round did
	again        bool          // its ports were used less than leastMemory before
}

func newTurns() turns { return turns{first: rand.IntN(freshCount)} }

func (t *turns) next(now time.Duration) (port int) {
	if t.taken%freshCount == 0 {
		t.again = t.taken > 0 && now-t.began < leastMemory
		t.began = now
	}
	port = firstFresh + (t.first+t.taken)%freshCount
	t.taken++
	return port
}
