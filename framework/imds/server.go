package imds

import (
	"crypto/rand"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/fault"
)

// The headers of the protocol, and how long a session may last, in seconds.
const (
	tokenHeader = "X-Aws-Ec2-Metadata-Token" //nolint:gosec // a header's name
	ttlHeader   = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
	maxTTL      = 21600
)

// maxSessions bounds the sessions that are kept; the real service has no documented limit.
const maxSessions = 1000

// Server is the service of one instance. It is safe for concurrent use.
type Server struct {
	instance Instance
	// hopLimit is how many hops the answer to a request for a token may make; 1 is its node.
	hopLimit int
	// local reports whether an address is one of the node's own.
	local  func(net.IP) bool
	now    func() time.Time
	faults *fault.Faults

	mu        sync.Mutex
	announced Announced
	events    []Happened
	sessions  map[string]time.Time // when they end, by token
	requests  []Request
}

// NewServer serves the metadata of an instance. local reports whether an address is one of the
// node's own.
func NewServer(i Instance, hopLimit int, local func(net.IP) bool) *Server {
	s := &Server{instance: i, hopLimit: hopLimit, local: local, now: time.Now, sessions: map[string]time.Time{}}
	s.faults = fault.New(s.happened)
	return s
}

// ServeHTTP answers a request for metadata, and records it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, ok := strings.CutPrefix(r.URL.Path, "/latest/")
	if !ok {
		path = r.URL.Path
	}
	met := s.faults.Take(func(fault.Fault) bool { return true })
	if met != nil {
		defer s.faults.Done(met)
		if s.fail(w, r, path, met) {
			return
		}
	}
	a := s.answer(r, path)
	s.record(Request{Method: r.Method, Path: path, Status: a.status, Announces: a.announces}, met)
	if a.status == 0 { // it never arrives
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.status)
	_, _ = w.Write([]byte(a.text)) // a client that has left loses nothing
}

// answer is what a request gets. Status 0 is an answer that does not arrive.
type answer struct {
	status int
	header map[string]string
	text   string
	// announces is set if it announces something.
	announces bool
}

func (s *Server) answer(r *http.Request, path string) answer {
	switch {
	case r.Method == http.MethodPut && path == "api/token":
		return s.session(r)
	case path == "api/token" || r.Method != http.MethodGet:
		return answer{status: http.StatusMethodNotAllowed}
	}
	left := s.left(r.Header.Get(tokenHeader))
	if left <= 0 {
		return answer{status: http.StatusUnauthorized}
	}
	s.mu.Lock()
	announced := s.announced
	s.mu.Unlock()
	texts, err := documents(s.instance, announced, s.now())
	if err != nil {
		return answer{status: http.StatusInternalServerError, text: err.Error()}
	}
	text, ok := texts[path]
	if !ok {
		text = listing(texts, path)
	}
	if text == "" {
		return answer{status: http.StatusNotFound}
	}
	kind := "text/plain"
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
		kind = "application/json"
	}
	header := map[string]string{"Content-Type": kind, ttlHeader: strconv.Itoa(int(left.Seconds()))}
	return answer{http.StatusOK, header, text, announced.at(path)}
}

// session begins a session.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-v2-how-it-works.html
func (s *Server) session(r *http.Request) answer {
	if r.Header.Get("X-Forwarded-For") != "" {
		return answer{status: http.StatusForbidden}
	}
	ttl, err := strconv.Atoi(r.Header.Get(ttlHeader))
	if err != nil || ttl < 1 || ttl > maxTTL {
		return answer{status: http.StatusBadRequest}
	}
	if s.hops(r) > s.hopLimit {
		return answer{}
	}
	token := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for t, ends := range s.sessions {
		if len(s.sessions) >= maxSessions || !now.Before(ends) {
			delete(s.sessions, t)
		}
	}
	s.sessions[token] = now.Add(time.Duration(ttl) * time.Second)
	header := map[string]string{ttlHeader: strconv.Itoa(ttl), "Content-Type": "text/plain"}
	return answer{status: http.StatusOK, header: header, text: token}
}

// hops is how many hops an answer makes: one to its node, and one more to a pod with a network
// namespace of its own.
func (s *Server) hops(r *http.Request) int {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || !s.local(net.ParseIP(host)) {
		return 2
	}
	return 1
}

// left is how long the session of a token still lasts; 0 if there is none.
func (s *Server) left(token string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[token].Sub(s.now())
}
