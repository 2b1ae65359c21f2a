package imds

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
)

// Happened is an event of a fault: it has begun, hit or ended.
type Happened struct {
	At    time.Time     `json:"at"`
	Event history.Event `json:"event"`
}

// happened keeps an event of a fault for those who ask for it.
func (s *Server) happened(e history.Event) {
	s.change(func() { s.events = append(s.events, Happened{s.now(), e}) })
}

// fail answers a request that the fault hits; false if it gets its real answer.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, path string, f *fault.Active) bool {
	status := 0
	switch f.Type {
	case history.Delay:
		time.Sleep(f.By.D())
		return false
	case history.Unauthorized:
		status = http.StatusUnauthorized
	case history.ServerError:
		status = f.Status
	}
	s.record(Request{Method: r.Method, Path: path, Status: status}, f)
	if status == 0 {
		panic(http.ErrAbortHandler) // which closes the connection
	}
	w.WriteHeader(status)
	return true
}

func (s *Server) begin(f fault.Fault) error {
	if f.On != history.OnMetadata {
		return fmt.Errorf("fault %s is on %s, which is no metadata", f.Name, f.On)
	}
	_, err := s.faults.Begin(f)
	return err
}

// Request is requests to the service that follow each other, for one path and with one result.
type Request struct {
	Method string `json:"method"`
	Path   string `json:"path"` // below /latest/
	// Status is the HTTP status; 0 if no answer arrived.
	Status int `json:"status"`
	// Fault is the fault that they met; empty for none.
	Fault string `json:"fault,omitempty"`
	// Announces is set if the answer announced something.
	Announces bool      `json:"announces,omitempty"`
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
	Count     int       `json:"count"`
}

// maxControl is the largest request to the control, in bytes.
const maxControl = 1 << 20

// maxRequests bounds what is recorded.
const maxRequests = 10_000

// record records a request, and the fault that it met, if any. What a poll gets again and again is
// one record, and one hit.
func (s *Server) record(one Request, met *fault.Active) {
	if met != nil {
		one.Fault = met.Name
	}
	if s.keep(one) && met != nil {
		s.happened(met.Hit(history.Action(one.Method), history.Resource(one.Path)))
	}
}

// keep adds a request to the record; true if it is a new one there.
func (s *Server) keep(one Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.First, one.Last, one.Count = s.now(), s.now(), 1
	for i := len(s.requests) - 1; i >= 0; i-- {
		if q := &s.requests[i]; q.Path == one.Path && q.Method == one.Method {
			if q.Status == one.Status && q.Fault == one.Fault && q.Announces == one.Announces {
				q.Last, q.Count = one.Last, q.Count+1
				return false
			}
			break
		}
	}
	if len(s.requests) < maxRequests {
		s.requests = append(s.requests, one)
	}
	return true
}

// Control serves what a drill does to the service: PUT /announced, POST, GET and DELETE
// /faults, GET /requests, and DELETE /requests, which forgets them. It must not be reachable at Address.
func (s *Server) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("PUT /announced", func(w http.ResponseWriter, r *http.Request) {
		var a Announced
		if decode(w, r, &a) {
			s.change(func() { s.announced = a })
		}
	})
	mux.HandleFunc("POST /faults", func(w http.ResponseWriter, r *http.Request) {
		var f fault.Fault
		if !decode(w, r, &f) {
			return
		}
		if err := s.begin(f); err != nil {
			http.Error(w, fmt.Sprintf("%s %s: %v", r.Method, r.URL.Path, err), http.StatusBadRequest)
		}
	})
	mux.HandleFunc("GET /faults", s.serve(func() any { return s.events }))
	mux.HandleFunc("DELETE /faults", func(http.ResponseWriter, *http.Request) {
		s.faults.Clear()
		s.change(func() { s.events = nil })
	})
	mux.HandleFunc("GET /requests", s.serve(func() any { return s.requests }))
	mux.HandleFunc("DELETE /requests", func(http.ResponseWriter, *http.Request) { s.change(func() { s.requests = nil }) })
	return mux
}

func (s *Server) change(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// serve answers with what the server has of something, as JSON.
func (s *Server) serve(something func() any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(something()) // a client that has left loses nothing
	}
}

// decode reads the body, strictly; what is wrong with it is the answer.
func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxControl))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		http.Error(w, fmt.Sprintf("%s %s: %v", r.Method, r.URL.Path, err), http.StatusBadRequest)
		return false
	}
	return true
}
