package prober

import (
	"errors"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// fixedPorts sends queries round robin from a few long-lived ports, as a
// forwarder such as NodeLocal DNSCache does.
type fixedPorts struct {
	ports []*port
}

// newFixedPorts opens the stream's ports; each listens until finish.
func newFixedPorts(s Stream, q question, timeout time.Duration, clock *history.Clock, a *account) (*fixedPorts, error) {
	f := new(fixedPorts)
	for range s.Ports {
		p, err := openPort(s, q, timeout, clock, a)
		if err != nil {
			for _, p := range f.ports {
				err = errors.Join(err, p.conn.Close())
			}
			return nil, err
		}
		f.ports = append(f.ports, p)
	}
	for _, p := range f.ports {
		go p.listen()
	}
	return f, nil
}

func (f *fixedPorts) send(i int, at time.Duration) { f.ports[i%len(f.ports)].send(at) }

// finish waits for the fate of the last queries and closes the ports.
func (f *fixedPorts) finish() {
	for _, p := range f.ports {
		p.stop()
	}
	for _, p := range f.ports {
		<-p.done
		_ = p.conn.Close()
	}
}
