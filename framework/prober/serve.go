package prober

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/guard"
	"github.com/spotdrill/spotdrill/framework/history"
)

const (
	// flushEvery is how long a settled query may wait: each flush wakes every process on
	// the way to the reader.
	flushEvery = 100 * time.Millisecond
	// writeWithin is how long a reader may stall before it counts as gone.
	writeWithin = 30 * time.Second
	// endWithin is how long a stopped probe may take to write its summary. A pod
	// has 30 s from SIGTERM.
	endWithin = MaxTimeout + 5*time.Second
)

// Serve offers probes on l until ctx ends. A running probe is then stopped, and its
// record still gets its summary. With a token, only requests that have it are served.
func Serve(ctx context.Context, l net.Listener, token string) error {
	server := &http.Server{Handler: guard.With(token, NewHandler(ctx)), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve probes on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	if err := server.Shutdown(end); err != nil {
		return fmt.Errorf("stop serving probes on %s: %w", l.Addr(), err)
	}
	return nil
}

// NewHandler returns the prober's HTTP interface:
//
//	POST /probe    a Plan as JSON; streams the record, which Collect reads
//	POST /stop     ends the probe; its record still gets its summary
//	GET  /resolver what this pod's resolv.conf says, as a Resolver in JSON
//	GET  /load/IP  how many requests the CoreDNS pod with that address has had, by its metrics
//	GET  /healthz  200
//
// There is one probe at a time. It ends early when its client is gone or ctx ends.
func NewHandler(ctx context.Context) http.Handler {
	s := &service{ctx: ctx}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /probe", s.probe)
	mux.HandleFunc("POST /stop", s.stop)
	mux.HandleFunc("GET /resolver", serveResolver)
	mux.HandleFunc("GET /load/{ip}", serveLoad)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	return mux
}

type service struct {
	ctx context.Context //nolint:containedctx // the lifetime of the service, not of a call

	mu   sync.Mutex
	quit context.CancelFunc // ends the running probe; nil if there is none
}

func (s *service) probe(w http.ResponseWriter, r *http.Request) {
	var plan Plan
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
	body.DisallowUnknownFields()
	if err := body.Decode(&plan); err != nil {
		http.Error(w, fmt.Sprintf("read plan: %v", err), http.StatusBadRequest)
		return
	}
	if err := errors.Join(plan.Validate(), checkOpenFiles(plan)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that a client is gone
	ctx, quit := context.WithCancel(r.Context())
	defer quit()
	if !s.begin(quit) {
		http.Error(w, "a probe is running already: wait for its end, or POST /stop", http.StatusConflict)
		return
	}
	defer s.end()
	defer context.AfterFunc(s.ctx, quit)()

	w.Header().Set("Content-Type", "application/octet-stream")
	clock := history.NewClock()
	control := http.NewResponseController(w)
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }() // the connection may be used again
	out := NewRecordWriter(flushed{w, control}, clock, plan)
	ended := make(chan struct{})
	var flusher sync.WaitGroup
	flusher.Go(func() {
		ticker := time.NewTicker(flushEvery)
		defer ticker.Stop()
		for {
			if out.Flush() != nil {
				quit() // the reader is gone
			}
			select {
			case <-ticker.C:
			case <-ended:
				return
			}
		}
	})
	summary, err := Run(ctx, plan, clock, out.Query)
	close(ended)
	flusher.Wait()
	_ = out.End(summary, err) // fails only if the client is gone
}

func (s *service) stop(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quit == nil {
		_, _ = fmt.Fprintln(w, "no probe is running")
		return
	}
	s.quit()
	_, _ = fmt.Fprintln(w, "stopping")
}

func (s *service) begin(quit context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quit != nil {
		return false
	}
	s.quit = quit
	return true
}

func (s *service) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quit = nil
}

// flushed sends everything that is written to it at once.
type flushed struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (f flushed) Write(b []byte) (int, error) {
	if err := f.control.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil {
		return 0, err
	}
	n, err := f.ResponseWriter.Write(b)
	if err != nil {
		return n, err
	}
	return n, f.control.Flush()
}
