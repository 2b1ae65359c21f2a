package imds

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Fault is how the service fails.
type Fault struct {
	Name string `json:"name"`
	// Status is the HTTP status of every answer; 0 with Gone, or with By alone.
	Status int `json:"status,omitempty"`
	// By is for how long every answer is held back.
	By time.Duration `json:"by,omitempty"`
	// Gone closes every connection without an answer.
	Gone bool `json:"gone,omitempty"`
	// Until is when it ends.
	Until time.Time `json:"until"`
}

// faultNow is the fault that is in force; nil for none.
func (s *Server) faultNow() *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == nil || !s.now().Before(s.fault.Until) {
		return nil
	}
	return s.fault
}

func (f *Fault) answer(w http.ResponseWriter) {
	if f.Gone {
		panic(http.ErrAbortHandler) // which closes the connection
	}
	w.WriteHeader(f.Status)
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

// maxRequests bounds what is recorded.
const maxRequests = 10_000

// record records a request. What a poll gets again and again is one record.
func (s *Server) record(one Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.First, one.Last, one.Count = s.now(), s.now(), 1
	for i := len(s.requests) - 1; i >= 0; i-- {
		if q := &s.requests[i]; q.Path == one.Path && q.Method == one.Method {
			if q.Status == one.Status && q.Fault == one.Fault && q.Announces == one.Announces {
				q.Last, q.Count = one.Last, q.Count+1
				return
			}
			break
		}
	}
	if len(s.requests) < maxRequests {
		s.requests = append(s.requests, one)
	}
}

// Control serves what a drill does to the service: PUT /announced, PUT and DELETE /fault, GET
// /requests, and DELETE /requests, which forgets them. It must not be reachable at Address.
func (s *Server) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("PUT /announced", func(w http.ResponseWriter, r *http.Request) {
		var a Announced
		if decode(w, r, &a) {
			s.mu.Lock()
			s.announced = a
			s.mu.Unlock()
		}
	})
	mux.HandleFunc("PUT /fault", func(w http.ResponseWriter, r *http.Request) {
		f := new(Fault)
		if decode(w, r, f) {
			s.mu.Lock()
			s.fault = f
			s.mu.Unlock()
		}
	})
	mux.HandleFunc("DELETE /fault", func(http.ResponseWriter, *http.Request) {
		s.mu.Lock()
		s.fault = nil
		s.mu.Unlock()
	})
	mux.HandleFunc("GET /requests", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.requests) // a client that has left loses nothing
	})
	mux.HandleFunc("DELETE /requests", func(http.ResponseWriter, *http.Request) {
		s.mu.Lock()
		s.requests = nil
		s.mu.Unlock()
	})
	return mux
}

// decode reads the body, strictly; what is wrong with it is the answer.
func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		http.Error(w, fmt.Sprintf("%s %s: %v", r.Method, r.URL.Path, err), http.StatusBadRequest)
		return false
	}
	return true
}
