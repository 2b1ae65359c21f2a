// Package prober queries DNS servers at a fixed rate and records the outcome of every
// query.
//
// It is open loop: queries leave on schedule whether or not earlier ones were answered,
// and latency counts from the intended send time. So an outage neither reduces the load
// nor hides in it. A query that could not leave within Tolerance of its time is
// recorded as unsent: that is a failure of the prober, never of the server.
//
// Run probes in this process. NewHandler and Serve offer that to other processes over
// HTTP; Collect reads the record of such a probe into a history.
package prober

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Limits of a plan.
const (
	DefaultTimeout = 2 * time.Second // that of the resolvers of Go and miekg/dns
	MinTimeout     = 10 * time.Millisecond
	MaxTimeout     = 10 * time.Second
	MaxFor         = 4 * time.Hour
	MaxRate        = 200_000 // queries/s of one stream
	MaxPorts       = 1024    // fixed ports, or kept connections, of one stream
	MaxQuestions   = 16384   // of one stream
	MinBufferSize  = 512     // octets; the least that EDNS0 allows (RFC 6891, 6.2.3)
	MaxBufferSize  = 4096    // octets
	// DefaultEcho is the rate at which the prober queries itself, in queries/s: often enough
	// to see a stall of a few ticks, too rarely to be a load.
	DefaultEcho = 100
)

// The ids of a fixed port's queries.
const (
	// rememberFor is how long after its timeout a query's id is not used again on its
	// port, so that a late answer is recognised.
	rememberFor = 10 * time.Second
	// maxRememberedIDs keeps half of the 65,536 ids free.
	maxRememberedIDs = 1 << 15
)

// Plan describes what to query, and for how long.
type Plan struct {
	Streams []QueryStream `json:"streams"`
	// Timeout is how long to wait for an answer after the query left: MinTimeout to
	// MaxTimeout, 0 for DefaultTimeout.
	Timeout time.Duration `json:"timeout,omitempty"` // nanoseconds
	// For is how long queries are sent, at most MaxFor.
	For time.Duration `json:"for"` // nanoseconds
	// Echo is the rate of the queries that the prober sends itself, in queries/s, up to
	// DefaultEcho; 0 for that. Many probers in one record need fewer.
	Echo int `json:"echo,omitempty"`
}

// QueryStream is a stream of queries to one server at one rate. Target and mode identify
// it in records, so a plan has at most one of each pair.
type QueryStream struct {
	Target string         `json:"target"` // history.Service, history.Control, or any other name
	Server netip.AddrPort `json:"server"`
	Mode   history.Mode   `json:"mode"`
	Rate   int            `json:"rate"`            // queries/s, 1 to MaxRate
	Ports  int            `json:"ports,omitempty"` // fixed and kept modes: how many source ports, 1 to MaxPorts
	// Questions are asked in turn. Modes of applications have none.
	Questions []Question `json:"questions,omitempty"`
	// Path is what is requested in the modes http and http-kept, such as /healthz.
	Path string `json:"path,omitempty"`
	// BufferSize is the EDNS0 buffer size, the largest answer accepted over UDP, in
	// octets, up to MaxBufferSize; 0 for no EDNS0.
	BufferSize uint16 `json:"buffer_size,omitempty"`
}

// Question is the name and type of a query.
type Question struct {
	Name string `json:"name"` // fully qualified: ends in a dot
	Type uint16 `json:"type"` // RR type, such as dns.TypeA
}

// Validate returns all errors of a plan.
func (p Plan) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(p.Streams) == 0 {
		bad("plan has no streams: give at least one")
	}
	if p.For <= 0 || p.For > MaxFor {
		bad("for is %v: want more than 0 and at most %v", p.For, MaxFor)
	}
	if p.Timeout != 0 && (p.Timeout < MinTimeout || p.Timeout > MaxTimeout) {
		bad("timeout is %v: want %v to %v, or 0 for %v", p.Timeout, MinTimeout, MaxTimeout, DefaultTimeout)
	}
	if p.Echo < 0 || p.Echo > DefaultEcho {
		bad("echo is %d: want 1 to %d queries/s, or 0 for %d", p.Echo, DefaultEcho, DefaultEcho)
	}
	type key struct {
		target string
		mode   history.Mode
	}
	seen := map[key]bool{}
	for i, s := range p.Streams {
		if err := s.validate(p.timeout()); err != nil {
			bad("stream %d (%s/%s): %w", i+1, s.Target, s.Mode, err)
		}
		if k := (key{s.Target, s.Mode}); seen[k] {
			bad("stream %d: there is a stream %s/%s already, and records could not distinguish them", i+1, s.Target, s.Mode)
		} else {
			seen[k] = true
		}
	}
	return errors.Join(errs...)
}

func (p Plan) timeout() time.Duration {
	if p.Timeout == 0 {
		return DefaultTimeout
	}
	return p.Timeout
}

func (p Plan) echo() int { return cmp.Or(p.Echo, DefaultEcho) }

func (s QueryStream) validate(timeout time.Duration) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.Target == history.Echo {
		bad("target is %q: that is the prober's own responder, which is always queried", s.Target)
	}
	if s.Target == "" {
		bad("target is empty: give a name, such as %q", history.Service)
	}
	if !s.Server.IsValid() || s.Server.Addr().IsUnspecified() || s.Server.Port() == 0 {
		bad("server is %q: want an address and port, such as 10.96.0.10:53", s.Server)
	}
	if s.Rate < 1 || s.Rate > MaxRate {
		bad("rate is %d: want 1 to %d queries/s", s.Rate, MaxRate)
	}
	switch s.Mode {
	case history.Fresh, history.Connect, history.Dial, history.HTTP:
		if s.Ports != 0 {
			bad("ports is %d: %s mode takes a port for each query, leave it out", s.Ports, s.Mode)
		}
	case history.Fixed, history.Kept, history.HTTPKept:
		if s.Ports < 1 || s.Ports > MaxPorts {
			bad("ports is %d: want 1 to %d in %s mode", s.Ports, MaxPorts, s.Mode)
		} else if ids := s.Rate * int((timeout+rememberFor)/time.Millisecond) / 1000 / s.Ports; s.Mode != history.HTTPKept && ids > maxRememberedIDs {
			bad("%d queries/s over %s would run out of query ids: use %s or more", s.Rate, history.Count(s.Ports, "port"), history.Count(s.Ports*ids/maxRememberedIDs+1, "port"))
		}
	default:
		bad("mode is %q: want one of %v", s.Mode, history.Modes())
	}
	if s.Mode.OfApplications() {
		errs = append(errs, s.validateRequest()...)
		return errors.Join(errs...)
	}
	if s.Path != "" {
		bad("path is %q: %s mode has none", s.Path, s.Mode)
	}
	if len(s.Questions) == 0 || len(s.Questions) > MaxQuestions {
		bad("%s: want 1 to %d", history.Count(len(s.Questions), "question"), MaxQuestions)
	}
	if s.BufferSize != 0 && (s.BufferSize < MinBufferSize || s.BufferSize > MaxBufferSize) {
		bad("buffer size is %d: want %d to %s, or 0 for no EDNS0", s.BufferSize, MinBufferSize, history.Count(MaxBufferSize, "octet"))
	}
	for _, q := range s.Questions {
		if _, ok := dns.IsDomainName(q.Name); !ok || !dns.IsFqdn(q.Name) {
			bad("name is %q: want a fully qualified domain name, such as kubernetes.default.svc.cluster.local.", q.Name)
		}
		if _, ok := dns.TypeToString[q.Type]; !ok || q.Type == dns.TypeNone {
			bad("type is %d: want an RR type, such as %d for A", q.Type, dns.TypeA)
		}
	}
	return errors.Join(errs...)
}

// validateRequest checks what only streams to applications have.
func (s QueryStream) validateRequest() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(s.Questions) > 0 || s.BufferSize != 0 {
		bad("%s mode asks no question and has no buffer size", s.Mode)
	}
	u, err := url.ParseRequestURI(s.Path)
	switch {
	case s.Mode == history.Dial && s.Path != "":
		bad("path is %q: %s mode only opens a connection", s.Path, s.Mode)
	case s.Mode != history.Dial && (err != nil || u.IsAbs() || !strings.HasPrefix(s.Path, "/")):
		bad("path is %q: want one that begins with a slash, such as /healthz", s.Path)
	}
	return errs
}

// Tolerance is how late a query may leave. After that it is not sent but recorded as
// unsent: a burst of overdue queries is not the planned load.
const Tolerance = 250 * time.Millisecond

// tick is the interval at which queries leave that are due more often.
const tick = time.Millisecond

// errLate is why most unsent queries were not sent.
var errLate = fmt.Errorf("more than %v late: this machine had too much load", Tolerance)

// schedule shows when the queries of a stream are due, in time since its start. It
// depends on that time alone, so that delays do not add up and slow answers do not
// reduce the load.
type schedule struct {
	rate int // queries/s
}

// due is how many queries must have left after elapsed: the first at 0, then
// one every 1/rate.
func (s schedule) due(elapsed time.Duration) int {
	if elapsed < 0 {
		return 0
	}
	return int(int64(elapsed)*int64(s.rate)/int64(time.Second)) + 1
}

// intended is when query i (from 0) is due: the earliest elapsed time at which
// due(elapsed) > i.
func (s schedule) intended(i int) time.Duration {
	return time.Duration((int64(i)*int64(time.Second) + int64(s.rate) - 1) / int64(s.rate))
}

// wake is when to wake up for query i: when it is due, or on the next tick if queries
// are due more often. With ticks several streams share one wake-up, and no wake-up
// shifts the next one.
func (s schedule) wake(i int) time.Duration {
	at := s.intended(i)
	if s.intended(1) >= tick {
		return at
	}
	return nextTick(at)
}

// nextTick is the first tick not before elapsed.
func nextTick(elapsed time.Duration) time.Duration { return (elapsed + tick - 1).Truncate(tick) }
