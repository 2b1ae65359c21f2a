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

// Services are the names of services in records, by their addresses.
type Services map[netip.AddrPort]string

// flows are the flows of one client to some services. They stay in memory until they are requested:
// 64 bytes each, 5 MB for a minute at 1,000/s. It is safe for concurrent use.
type flows struct {
	client   netip.Addr
	services Services

	mu       sync.Mutex
	all      []history.Flow
	open     map[origin]int // the flow of a port that has one, by its place in all
	backends map[netip.Addr]string
	// overflows is how often the socket could not hold all events.
	overflows int
	failures  []failure
	counted   failure // the last reading of the kernel's count
}

// origin is where a flow begins: the client's port, and the service that it calls.
type origin struct {
	protocol uint8
	port     uint16
	service  netip.AddrPort
}

// newFlows begins with what the kernel has counted before.
func newFlows(client netip.Addr, services Services, failed int) *flows {
	return &flows{client: client, services: services, counted: failure{Packets: failed}, open: map[origin]int{}, backends: map[netip.Addr]string{}}
}

// add takes a change that was read at a time since the record's anchor.
func (f *flows) add(at time.Duration, changes []change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range changes {
		if !f.ours(c) {
			continue
		}
		from := origin{c.protocol, c.client.Port(), c.service}
		was, known := f.open[from]
		switch {
		case !c.ended:
			// A missing end must not merge this flow with the previous one of the port.
			if known {
				f.all[was].To = at
			}
			f.open[from] = len(f.all)
			f.all = append(f.all, history.Flow{Port: int(from.port), Target: f.services[c.service], Backend: f.name(c.backend.Addr()), From: at, TCP: c.protocol == protocolTCP})
		case known:
			f.all[was].To, f.all[was].Removed, f.all[was].Replied = at, c.removed, c.replied
			delete(f.open, from)
		}
	}
}

// living takes the list of open entries. The kernel reports by itself whether an answer
// came only when a flow ends.
func (f *flows) living(entries []change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range entries {
		if i, ok := f.open[origin{c.protocol, c.client.Port(), c.service}]; ok && f.ours(c) {
			f.all[i].Replied = c.replied
		}
	}
}

func (f *flows) ours(c change) bool {
	_, ours := f.services[c.service]
	return ours && (c.protocol == protocolUDP || c.protocol == protocolTCP) && c.client.Addr() == f.client
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

func (f *flows) snapshot() (all []history.Flow, last end) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last = end{Flows: len(f.all), Overflows: f.overflows, Failures: slices.Clone(f.failures)}
	for _, failed := range f.failures {
		last.InsertFailed += failed.Packets
	}
	return slices.Clone(f.all), last
}
