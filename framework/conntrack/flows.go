package conntrack

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// change is a change of an entry, as the kernel reports it.
type change struct {
	// ended: the entry is gone; otherwise it is new.
	ended bool
	// removed: the entry ended because a process removed it.
	removed bool
	// replied: a packet came back from the backend.
	replied         bool
	protocol        uint8
	client, service netip.AddrPort // as the client sent
	backend         netip.AddrPort // where the replies come from
}

// The protocols that carry DNS, by their numbers in IP headers.
const (
	protocolTCP = 6
	protocolUDP = 17
)

// flows are the flows of one client to one service, either over UDP or over TCP, because
// their ports could not be distinguished. They stay in memory until they are requested:
// 48 bytes each, 4 MB for a minute at 1,000/s. It is safe for concurrent use.
type flows struct {
	client  netip.Addr
	service netip.AddrPort

	mu       sync.Mutex
	all      []history.Flow
	open     map[int]int // the flow of a port that has one, by its place in all
	backends map[netip.Addr]string
	// overflows is how often the socket could not hold all events.
	overflows int
	failures  []failure
	counted   failure // the last reading of the kernel's count
}

// newFlows begins with what the kernel has counted before.
func newFlows(client netip.Addr, service netip.AddrPort, failed int) *flows {
	return &flows{client: client, service: service, counted: failure{Packets: failed}, open: map[int]int{}, backends: map[netip.Addr]string{}}
}

// add takes a change that was read at a time since the record's anchor.
func (f *flows) add(at time.Duration, changes []change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range changes {
		if !f.ours(c) {
			continue
		}
		port := int(c.client.Port())
		was, known := f.open[port]
		switch {
		case !c.ended:
			// A missing end must not merge this flow with the previous one of the port.
			if known {
				f.all[was].To = at
			}
			f.open[port] = len(f.all)
			f.all = append(f.all, history.Flow{Port: port, Backend: f.name(c.backend.Addr()), From: at})
		case known:
			f.all[was].To, f.all[was].Removed, f.all[was].Replied = at, c.removed, c.replied
			delete(f.open, port)
		}
	}
}

// living takes the list of open entries. The kernel reports by itself whether an answer
// came only when a flow ends.
func (f *flows) living(entries []change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range entries {
		if i, ok := f.open[int(c.client.Port())]; ok && f.ours(c) {
			f.all[i].Replied = c.replied
		}
	}
}

func (f *flows) ours(c change) bool {
	return (c.protocol == protocolUDP || c.protocol == protocolTCP) && c.service == f.service && c.client.Addr() == f.client
}

// name is the backend's address, one string for all of its flows.
func (f *flows) name(backend netip.Addr) string {
	name, ok := f.backends[backend]
	if !ok {
		name = backend.String()
		f.backends[backend] = name
	}
	return name
}

func (f *flows) overflow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.overflows++
}

// failed takes a reading of how many packets the kernel has dropped since it started
// because it could not insert their entries.
func (f *flows) failed(at time.Duration, packets int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := packets - f.counted.Packets; n > 0 {
		f.failures = append(f.failures, failure{From: f.counted.To, To: at, Packets: n})
	}
	f.counted = failure{To: at, Packets: packets}
}

// snapshot returns what was recorded so far.
func (f *flows) snapshot() (all []history.Flow, last end) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last = end{Flows: len(f.all), Overflows: f.overflows, Failures: slices.Clone(f.failures)}
	for _, failed := range f.failures {
		last.InsertFailed += failed.Packets
	}
	return slices.Clone(f.all), last
}
