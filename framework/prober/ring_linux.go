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
	keep         bool // their sockets stay open for the next turn
}

// anyPort is the whole range from a random place on, with a socket for each query.
func anyPort() ring { return ring{first: rand.IntN(freshCount), ports: freshCount} }

func (r ring) port(place int) int { return firstFresh + (r.first+place)%freshCount }

// lent is the share of ports whose sockets are not kept, one in so many. A large ring
// has most of the ports from which other programs on this machine query.
const lent = 16

func (r ring) keeps(place int) bool { return r.keep && r.port(place)%lent != 0 }

// kept is how many sockets may stay open, 0 if none are kept.
func (r ring) kept() int {
	if !r.keep {
		return 0
	}
	return r.ports
}

// rings are the ports of each stream. Sockets are kept if that saves opening any, and if
// every fresh stream can have ports of its own.
func (p Plan) rings() []ring {
	rings, sum, worth := make([]ring, len(p.Streams)), 0, false
	at := rand.IntN(freshCount)
	for i, s := range p.Streams {
		if s.Mode != history.Fresh {
			continue
		}
		turn := trackingMemory() + p.timeout() + time.Second // an answer prolongs an entry
		ports := min(freshCount, int(int64(s.Rate)*int64(turn)/int64(time.Second))+1)
		rings[i] = ring{first: (at + sum) % freshCount, ports: ports, keep: true}
		sum += ports
		worth = worth || schedule{s.Rate}.due(p.For-1) > ports
	}
	if !worth || sum > freshCount {
		return p.singleUse()
	}
	return rings
}

// singleUse are the ports of each stream, with a socket for each query.
func (p Plan) singleUse() []ring {
	rings := make([]ring, len(p.Streams))
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
