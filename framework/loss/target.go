package loss

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Target is a Service that the prober measures. Each is judged by itself: its queries, its
// endpoints and its flows.
type Target struct {
	Service, Control string // the targets of its queries
	Queries, Stays   string // what these are called, and the control
	Key              string // of the events about its endpoints; empty for kube-dns
	Fresh, Fixed     int    // queries/s of each mode
	Direct           int    // queries/s to the control
	// Observed reports whether it is in a cluster that is not spotdrill's own: each prober is on a
	// machine of its own, and its own responder is the control.
	Observed bool

	flows   string        // the target of its flows
	delay   time.Duration // how long it was set to take for an answer
	probers int           // at least 1
	both    bool          // it is queried over UDP and TCP, each at these rates
}

// DNS is kube-dns. Without a probe, nothing is sent there.
func DNS(s scenarios.Scenario) Target {
	t := Target{Service: history.Service, Control: history.Control, Queries: "queries", Stays: "a CoreDNS pod that stays", delay: s.CoreDNS.Delay.D()}
	if p := s.Probe; p != nil {
		t.Fresh, t.Fixed, t.Direct, t.both = p.Fresh, p.Fixed, p.Control, p.Transport == scenarios.Both
	}
	return t.of(s)
}

// Application is the Service of the workload, or of the user's application, that the scenario probes.
func Application(s scenarios.Scenario) Target {
	a := s.Probe.Application
	t := Target{
		Service: history.Application, Control: history.ApplicationControl, Queries: "requests", Stays: "a pod that stays", Key: scenarios.App, flows: history.Application,
		Fresh: a.Fresh, Fixed: a.Fixed, Direct: a.Control,
	}
	return t.of(s)
}

// of is the target in the scenario's cluster.
func (t Target) of(s scenarios.Scenario) Target {
	t.probers = 1
	if s.Probe != nil {
		t.probers = max(1, s.Probe.Probers)
	}
	if s.Observe != nil {
		t.Observed, t.Control, t.Stays = true, history.Echo, "the prober's own responder"
	}
	return t
}

// Rate is that of the queries to the service in a mode, in queries per second.
func (t Target) Rate(mode history.Mode) int {
	if mode.PortEach() {
		return t.Fresh
	}
	return t.Fixed
}

// Modes are those in which the service is queried, in the order in which they are reported.
func (t Target) Modes() []history.Mode {
	return slices.DeleteFunc(Modes(), func(m history.Mode) bool { return t.Rate(m) == 0 || m.OverTCP() && !t.both })
}

// machine is the machine whose stalls matter to a query from a prober: its own or, in spotdrill's
// cluster, the one that all nodes share.
func (t Target) machine(node string) string {
	if t.Observed {
		return node
	}
	return ""
}

// Endpoints are the events about the endpoints of the service, of these kinds.
func (t Target) Endpoints(st *story.Story, kinds ...history.Kind) []history.Event {
	return st.All(func(e history.Event) bool { return slices.Contains(kinds, e.Kind) && t.Concerns(e) })
}

// Concerns reports whether an event is not about the endpoints of another service.
func (t Target) Concerns(e history.Event) bool {
	switch e.Kind {
	case history.EndpointReady, history.EndpointNotReady, history.EndpointTerminating, history.EndpointGone:
		return e.Service() == t.Key
	}
	return true
}

// Windows describes each mode's longest window.
func (t Target) Windows(streams Streams) string {
	var parts []string
	for _, mode := range Modes() {
		s, ok := streams[mode]
		if !ok || t.Rate(mode) == 0 {
			continue
		}
		w, ok := s.Longest()
		if !ok {
			parts = append(parts, fmt.Sprintf("%s: no window", mode))
			continue
		}
		more := ""
		if n := len(s.Windows); n > 1 {
			more = fmt.Sprintf(", the longest of %d", n)
		}
		if w.Open {
			more += ", still open"
		}
		parts = append(parts, fmt.Sprintf("%s: %s from +%s (%d of %d lost%s)", mode, history.Seconds(w.Length()), history.Seconds(w.From), w.Lost, w.Asked, more))
	}
	return strings.Join(parts, "; ")
}

// Around are the events that belong to the windows: what happened to pods and
// endpoints of DNS shortly before and within.
func (t Target) Around(st *story.Story, streams Streams) []history.Event {
	var windows []history.Window
	for _, mode := range Modes() {
		windows = append(windows, streams[mode].Windows...)
	}
	return st.All(func(e history.Event) bool {
		if !t.Concerns(e) {
			return false
		}
		switch e.Kind {
		case history.Reclaimed, history.EndpointReady, history.EndpointNotReady, history.EndpointTerminating, history.EndpointGone,
			history.PodTerminating, history.PodExited, history.PodDeleted:
			return slices.ContainsFunc(windows, func(w history.Window) bool {
				return e.At >= w.From-history.Quiet && e.At <= w.To
			})
		}
		return false
	})
}
