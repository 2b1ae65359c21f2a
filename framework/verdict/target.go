package verdict

import (
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// target is a Service that the prober measures. Each is judged by itself: its queries, its
// endpoints and its flows.
type target struct {
	service, control string // the targets of its queries
	queries, stays   string // what these are called, and the control
	key              string // of the events about its endpoints; empty for kube-dns
	flows            string // the target of its flows
	fresh, fixed     int    // queries/s of each mode
	direct           int    // queries/s to the control
	// delay is how long it was set to take for an answer.
	delay time.Duration
	// observed says that it is in a cluster that is not spotdrill's own: each prober is on a
	// machine of its own, and its own responder is the control.
	observed bool
}

// dnsTarget is kube-dns. Without a probe, nothing is sent there.
func dnsTarget(s scenarios.Scenario) target {
	t := target{service: history.Service, control: history.Control, queries: "queries", stays: "a CoreDNS pod that stays", delay: s.CoreDNS.Delay.D()}
	if p := s.Probe; p != nil {
		t.fresh, t.fixed, t.direct = p.Fresh, p.Fixed, p.Control
	}
	return t.of(s)
}

// applicationTarget is the Service of the workload, or of the user's application.
func applicationTarget(s scenarios.Scenario) target {
	a := s.Probe.Application
	t := target{
		service: history.Application, control: history.ApplicationControl, queries: "requests", stays: "a pod that stays", key: scenarios.App, flows: history.Application,
		fresh: a.Fresh, fixed: a.Fixed, direct: a.Control,
	}
	return t.of(s)
}

// of is the target in the scenario's cluster.
func (t target) of(s scenarios.Scenario) target {
	if s.Observe != nil {
		t.observed, t.control, t.stays = true, history.Echo, "the prober's own responder"
	}
	return t
}

// rate is that of the queries to the service in a mode, in queries per second.
func (t target) rate(mode history.Mode) int {
	if mode == history.Fixed {
		return t.fixed
	}
	return t.fresh
}

// modes are those in which the service is queried, in the order in which they are reported.
func (t target) modes() []history.Mode {
	if t.fixed == 0 {
		return []history.Mode{history.Fresh}
	}
	return inTurn()
}

// machine is the machine whose stalls matter to a query from a prober: its own or, in spotdrill's
// cluster, the one that all nodes share.
func (t target) machine(node string) string {
	if t.observed {
		return node
	}
	return ""
}

// endpoints are the events about the endpoints of the service, of these kinds.
func (j judge) endpoints(kinds ...history.Kind) []history.Event {
	return filter(j.AllOf(kinds...), j.ofTarget)
}

// ofTarget reports whether an event is not about the endpoints of another service.
func (j judge) ofTarget(e history.Event) bool {
	switch e.Kind {
	case history.EndpointReady, history.EndpointNotReady, history.EndpointTerminating, history.EndpointGone:
		return e.Key == j.target.key
	}
	return true
}
