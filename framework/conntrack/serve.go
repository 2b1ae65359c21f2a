// Package conntrack records where a node sent the queries of one client: the
// connection tracking entries between the client and services, with the backend
// that each was translated to, from the kernel's own events (ctnetlink).
//
// An entry decides where every query from its port goes: kube-proxy's rules apply only
// to the first one, and until the entry is gone the others follow it, even to a pod
// that no longer exists. So a query's port and time show to which pod it was sent, and
// a new entry shows where the rules sent queries at that moment.
package conntrack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/procfs"

	"github.com/spotdrill/spotdrill/framework/guard"
	"github.com/spotdrill/spotdrill/framework/history"
)

// batch is how long events wait in the socket, so a flow's times may be this much late.
// Reading them at once would wake this process 2,000 times a second at 1,000 new
// queries/s, next to the system that it measures. A wake-up costs more than the 1.6 µs
// of an event.
const batch = 10 * time.Millisecond

// countEvery is how often the kernel's count of dropped packets is read: a query whose
// packet was dropped has no flow, and only the time connects it with the count.
const countEvery = 100 * time.Millisecond

// Port is where a recorder listens. It is in the network of its node, where a handler may have the
// usual 8080: AWS Node Termination Handler has its probes there in IMDS mode.
const Port = "18153"

// Serve records the flows from client to the services and serves them on l until ctx ends:
//
//	GET /flows    all flows since the start, as Collect reads them
//	GET /healthz  200
//
// It has subscribed to the kernel's events before it answers anything. With a token, only requests
// that have it are served.
func Serve(ctx context.Context, l net.Listener, token string, client netip.Addr, services Services) error {
	s, err := listen()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	failedBefore, err := insertFailed()
	if err != nil {
		return errors.Join(err, s.close(), l.Close())
	}
	anchor := history.NewAnchor()
	recorded := newFlows(client, services, failedBefore)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /flows", func(w http.ResponseWriter, _ *http.Request) {
		used := processorTime()
		var entries []change
		if err := list(func(c change) { entries = append(entries, c) }); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		failed, err := insertFailed()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		recorded.failed(time.Since(anchor.Wall), failed)
		recorded.living(entries)
		all, last := recorded.snapshot()
		last.CPU = used
		w.Header().Set("Content-Type", "application/jsonl")
		_ = writeRecord(w, anchor, all, last) // fails only if the client is gone
	})
	server := guard.Server(token, mux)
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(l) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failed <- record(ctx, s, anchor.Wall, recorded)
	}()
	err = <-failed
	stop()
	<-ended
	return errors.Join(err, s.close(), server.Close())
}

func record(ctx context.Context, s *socket, start time.Time, into *flows) error {
	ticker := time.NewTicker(batch)
	defer ticker.Stop()
	buf := make([]byte, readSize)
	var changes []change
	counted := start
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		changes = changes[:0]
		overflowed, err := s.drain(buf, func(c change) { changes = append(changes, c) })
		if err != nil {
			return err
		}
		if overflowed {
			into.overflow()
		}
		into.add(time.Since(start), changes)
		if time.Since(counted) < countEvery {
			continue
		}
		failed, err := insertFailed()
		if err != nil {
			return err
		}
		counted = time.Now()
		into.failed(counted.Sub(start), failed)
	}
}

// insertFailed is how many packets the kernel has dropped since it started because it could not insert
// their entries: two packets need the same entry at the same moment (kubernetes#56903). It counts them
// for each network namespace and processor.
func insertFailed() (sum int, err error) {
	var counts []procfs.ConntrackStatEntry
	proc, err := procfs.NewDefaultFS()
	if err == nil {
		counts, err = proc.ConntrackStat()
	}
	if err != nil {
		return 0, fmt.Errorf("read the kernel's connection tracking counts: %w", err)
	}
	for _, c := range counts {
		sum += int(c.InsertFailed)
	}
	return sum, nil
}
