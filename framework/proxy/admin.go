package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
)

// Admin serves GET /records, POST /faults (begins the fault given as JSON), DELETE
// /faults (ends all of them), PUT /permitted (refuses every action of SQS but those in a JSON list),
// DELETE /permitted (refuses none), POST /findings (what EC2 finds of instances, as a JSON list of
// Finding), DELETE /findings (every instance is well) and GET /healthz.
func (p *Proxy) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /records", p.records.serve)
	mux.HandleFunc("POST /faults", take(p.begin))
	mux.HandleFunc("DELETE /faults", func(http.ResponseWriter, *http.Request) { p.faults.Clear() })
	mux.HandleFunc("PUT /permitted", take(p.permit))
	mux.HandleFunc("DELETE /permitted", func(http.ResponseWriter, *http.Request) { p.permitted.Store(nil) })
	mux.HandleFunc("POST /findings", take(p.findings.add))
	mux.HandleFunc("DELETE /findings", func(http.ResponseWriter, *http.Request) { p.findings.clear() })
	mux.HandleFunc("GET /healthz", p.serveHealth)
	return mux
}

// take passes on the JSON in a request's body. An error of either is the answer.
func take[T any](pass func(T) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxInspected))
		decoder.DisallowUnknownFields()
		var body T
		err := decoder.Decode(&body)
		if err == nil {
			err = pass(body)
		}
		if err == nil {
			return
		}
		http.Error(w, fmt.Sprintf("%s %s: %v", r.Method, r.URL.Path, err), http.StatusBadRequest)
	}
}

// errNoAPI is why a fault of the API server cannot begin.
var errNoAPI = errors.New("this is not a proxy for an API server")

func (p *Proxy) begin(f fault.Fault) error {
	switch {
	case f.On == history.OnMetadata || f.Type.OfInstances() || f.Type.OfTheQueueItself():
		return fmt.Errorf("%s on %s is not for the proxy to do", f.Type, f.On)
	case f.On == history.OnAPI && p.api == nil:
		return errNoAPI
	}
	a, err := p.faults.Begin(f)
	if err == nil && p.api != nil {
		p.api.watches.endAll(a)
	}
	return err
}

func (p *Proxy) permit(actions []string) error {
	p.permitted.Store(&actions)
	return nil
}

// allows reports whether the policy allows a call of SQS. Batches need the permission of their single calls.
func (p *Proxy) allows(action string) bool {
	actions := p.permitted.Load()
	return actions == nil || slices.Contains(*actions, history.SQSPermission(action))
}

// serveHealth reports whether the upstream answers, and the API server has answered.
func (p *Proxy) serveHealth(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.upstream.JoinPath("/_localstack/health").String(), http.NoBody)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	resp, err := p.transport.RoundTrip(req)
	if err != nil {
		http.Error(w, "upstream: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		http.Error(w, "upstream: "+resp.Status, http.StatusServiceUnavailable)
		return
	}
	if p.api != nil {
		if err := p.api.ready(ctx); err != nil {
			http.Error(w, "API server: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	_, _ = io.WriteString(w, "ok\n")
}
