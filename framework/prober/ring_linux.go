package prober

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

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
	kept         int // so many of them keep their socket for the next turn
}

// anyPort is the whole range from a random place on, with a socket for each query.
func anyPort() ring { return ring{first: rand.IntN(freshCount), ports: freshCount} }

func (r ring) port(place int) int { return firstFresh + (r.first+place)%freshCount }

// lent is the share of ports whose sockets are never kept, one in so many: a large ring
// has most of the ports that this machine gives to programs that ask for any.
const lent = 16

func (r ring) keeps(place int) bool { return place < r.kept && r.port(place)%lent != 0 }

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
