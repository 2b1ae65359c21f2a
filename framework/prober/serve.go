package prober

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/guard"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

const (
	// writeWithin is how long a reader may stall before it counts as gone.
	writeWithin = 30 * time.Second
	// endWithin is how long a stopped probe may take to write its summary. A pod
	// has 30 s from SIGTERM.
	endWithin = MaxTimeout + 5*time.Second
)

// Serve offers probes on l until ctx ends. A running probe is then stopped, and its
// record still gets its summary. With a token, only requests that have it are served.
func Serve(ctx context.Context, l net.Listener, token string) error {
	s := &service{ctx: ctx}
	server := guard.Server(token, s.handler())
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve probes on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	if p := s.latest(); p != nil {
		p.deliver(end)
	}
	return wrap.Errorf(server.Shutdown(end), "stop serving probes on %s", l.Addr())
}

// MaxPatience bounds how long a probe goes on without a reader of its record.
const MaxPatience = time.Minute

type service struct {
	ctx context.Context //nolint:containedctx // the lifetime of the service, not of a call

	mu    sync.Mutex
	probe *runningProbe // the latest; nil before the first one
}

// NewHandler returns the prober's HTTP interface:
//
//	POST /probe          a Plan as JSON; streams the record, which Collect reads
//	POST /probe?patience=35s
//	                     the same without the record, and the probe goes on until nobody has
//	                     read its record for that long
//	GET  /record?from=N  streams the record of the latest probe from byte N on, for a few seconds;
//	                     416 if it ends there
//	POST /stop           ends the probe; its record still gets its summary
//	GET  /resolver       this pod's resolv.conf, as a Resolver in JSON
//	GET  /load/IP        how many requests the CoreDNS pod with that address has had, by its metrics
//	GET  /healthz        200
//
// There is one probe at a time. It ends early when its client is gone for longer than it has
// patience, by default none, or when ctx ends.
func NewHandler(ctx context.Context) http.Handler { return (&service{ctx: ctx}).handler() }

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /probe", s.begin)
	mux.HandleFunc("GET /record", s.resume)
	mux.HandleFunc("POST /stop", s.stop)
	mux.HandleFunc("GET /resolver", serveResolver)
	mux.HandleFunc("GET /load/{ip}", serveLoad)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	return mux
}

func (s *service) begin(w http.ResponseWriter, r *http.Request) {
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
	patience, err := time.ParseDuration(cmp.Or(r.URL.Query().Get("patience"), "0s"))
	if err != nil || patience < 0 || patience > MaxPatience {
		http.Error(w, fmt.Sprintf("patience is %q: want a duration up to %s", r.URL.Query().Get("patience"), MaxPatience), http.StatusBadRequest)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that a client is gone
	p := s.start(plan, patience)
	if p == nil {
		http.Error(w, "a probe is running already: wait for its end, or POST /stop", http.StatusConflict)
		return
	}
	if patience > 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	p.send(w, r, 0)
}

func (s *service) start(plan Plan, patience time.Duration) *runningProbe {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.probe != nil && s.probe.runs() {
		return nil
	}
	s.probe = startProbe(s.ctx, plan, patience)
	return s.probe
}

func (s *service) latest() *runningProbe {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.probe
}

func (s *service) resume(w http.ResponseWriter, r *http.Request) {
	p := s.latest()
	if p == nil {
		http.Error(w, "no probe has run", http.StatusNotFound)
		return
	}
	place, err := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
	if err != nil {
		http.Error(w, fmt.Sprintf("from is %q: want how many bytes have been read", r.URL.Query().Get("from")), http.StatusBadRequest)
		return
	}
	switch part, whole, _, err := p.record.from(place); {
	case err != nil:
		http.Error(w, err.Error(), http.StatusGone)
	case whole && len(part) == 0:
		http.Error(w, "the record ends here", http.StatusRequestedRangeNotSatisfiable)
	default:
		p.send(w, r, place)
	}
}

func (s *service) stop(w http.ResponseWriter, _ *http.Request) {
	p := s.latest()
	if p == nil || !p.runs() {
		_, _ = fmt.Fprintln(w, "no probe is running")
		return
	}
	p.quit()
	_, _ = fmt.Fprintln(w, "stopping")
}
