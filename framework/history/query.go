package history

import (
	"strings"
	"time"
)

// Outcome is the result of a query, or of a request to an application. The empty outcome is invalid, never a success.
type Outcome string

// The closed list of outcomes.
const (
	Answered  Outcome = "answered" // NOERROR with at least one answer record; an HTTP status below 400; an open connection
	Empty     Outcome = "empty"    // NOERROR without an answer record
	NXDomain  Outcome = "nxdomain"
	ServFail  Outcome = "servfail"
	Refused   Outcome = "refused"   // the server's REFUSED
	OtherCode Outcome = "rcode"     // any other response code, also of HTTP
	Truncated Outcome = "truncated" // TC bit
	Timeout   Outcome = "timeout"   // no answer within the prober's timeout
	ICMP      Outcome = "icmp"      // refused or unreachable, as the kernel reports; over TCP also a connection that ended
	Mismatch  Outcome = "mismatch"  // an answer that does not fit its question, or is not DNS or not HTTP
	Unsent    Outcome = "unsent"    // could not leave on schedule: the prober's own failure
)

// Outcomes lists every valid outcome.
func Outcomes() []Outcome {
	return []Outcome{Answered, Empty, NXDomain, ServFail, Refused, OtherCode, Truncated, Timeout, ICMP, Mismatch, Unsent}
}

// Lost reports whether a client would have seen the query as a failure of DNS.
// Unsent is not among them: it reports something about the prober only.
func (o Outcome) Lost() bool { return o != Answered && o != Unsent }

// Mode is how a query travels.
type Mode string

// The closed list of modes.
const (
	Fresh   Mode = "fresh"    // UDP from a port that no earlier query used within 30 s: a new flow to kube-proxy
	Fixed   Mode = "fixed"    // UDP from one of a few long-lived ports, as NodeLocal DNSCache does
	Connect Mode = "tcp"      // TCP, a new connection for each query
	Kept    Mode = "tcp-kept" // TCP, over one of a few connections that are kept, and opened again if they break
	// To applications.
	Dial     Mode = "dial"      // a TCP connection, which is opened and closed
	HTTP     Mode = "http"      // an HTTP/1.1 GET over a new connection
	HTTPKept Mode = "http-kept" // an HTTP/1.1 GET over a connection that was kept, if one is idle
)

// OfApplications reports whether the mode is not one of DNS.
func (m Mode) OfApplications() bool { return m == Dial || m == HTTP || m == HTTPKept }

// OverTCP reports whether queries or requests in the mode go over TCP.
func (m Mode) OverTCP() bool { return m != Fresh && m != Fixed }

// PortEach reports whether in this mode every query leaves from a port of its own,
// so that kube-proxy's rules choose its backend; else its flow's entry does.
func (m Mode) PortEach() bool { return m == Fresh || m == Connect || m == Dial || m == HTTP }

// Modes lists every valid mode.
func Modes() []Mode { return []Mode{Fresh, Fixed, Connect, Kept, Dial, HTTP, HTTPKept} }

// Targets of the prober. Service is what a pod would query; Control is a CoreDNS
// pod that stays, queried by its own IP: a failure there is the prober's noise. Echo
// is a responder in the prober's own process, over loopback: it fails or lags only
// if that process or its machine does.
const (
	Service = "service"
	Control = "control"
	Echo    = "echo"
	// Application is the Service of the workload, ApplicationControl a pod of the same program
	// that stays, requested by its own IP.
	Application        = "application"
	ApplicationControl = "application-control"
)

// direct begins the target of queries to one CoreDNS pod, by its own IP, in a cluster that is not
// spotdrill's own.
const direct = "coredns "

// Direct is the target of queries to the CoreDNS pod with an IP.
func Direct(ip string) string { return direct + ip }

// AskedDirectly returns the IP of the CoreDNS pod that a target is; false if it is none.
func AskedDirectly(target string) (ip string, ok bool) { return strings.CutPrefix(target, direct) }

// Query is one DNS query, or one request to an application. All times are nanoseconds since the history's base;
// latency counts from Intended, so that a late prober does not make the server look better.
type Query struct {
	Target   string        `json:"t"`
	Node     string        `json:"n,omitempty"` // where the prober was; empty outside a drill
	Mode     Mode          `json:"m"`
	Port     int           `json:"p,omitempty"` // source port; 0 when unsent
	Intended time.Duration `json:"at"`
	Sent     time.Duration `json:"sent,omitempty"`
	Done     time.Duration `json:"done,omitempty"` // answer, error, or the end of the timeout
	Outcome  Outcome       `json:"o"`
}

// Left is when the query left, or should have if the record does not show.
func (q Query) Left() time.Duration {
	if q.Sent == 0 {
		return q.Intended
	}
	return q.Sent
}
