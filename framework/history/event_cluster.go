package history

import (
	"fmt"
	"strings"
)

// What else the watcher saw in the cluster.
const (
	EndpointReady       Kind = "endpoint.ready"
	EndpointNotReady    Kind = "endpoint.notready"
	EndpointTerminating Kind = "endpoint.terminating"
	EndpointGone        Kind = "endpoint.gone"

	// A watch that breaks misses nothing as long as it can be resumed, but what happened
	// meanwhile is seen late.
	WatchLost Kind = "watch.lost"
	WatchBack Kind = "watch.back"

	ClusterEvent Kind = "event"

	ClusterGrown Kind = "cluster.grown"
)

// The constructors of these events.
var (
	// NewEndpointReady reports that an address of the EndpointSlices of a service is ready. The service is
	// empty for kube-dns, as for the other events of endpoints.
	NewEndpointReady = event3(EndpointReady, about, Pod, IP)
	// NewEndpointNotReady reports that an address is not ready.
	NewEndpointNotReady = event4(EndpointNotReady, about, Pod, IP, conditions)
	// NewEndpointTerminating reports that an address terminates, and whether it still serves.
	NewEndpointTerminating = event4(EndpointTerminating, about, Pod, IP, stillServes)
	// NewEndpointGone reports that an address left the EndpointSlices.
	NewEndpointGone = event3(EndpointGone, about, Pod, IP)
	// NewWatchLost reports that the watch of nodes, pods, … broke. Said: when it last delivered something.
	NewWatchLost = event1(WatchLost, about)
	// NewWatchBack reports that the watch is back. What happened meanwhile is on record before it or right
	// after it, unless Note states otherwise.
	NewWatchBack = event1(WatchBack, about)
	// NewClusterEvent is an event of Kubernetes about an object of a kind. Node or Pod: the object; Note: its
	// message; Owner: the component that reported it.
	NewClusterEvent = event2(ClusterEvent, about, why)
	// NewClusterGrown reports that virtual nodes join the cluster, or leave it. Numbers: virtual_nodes, cores
	// (of all of them).
	NewClusterGrown = event0(ClusterGrown)
)

// Conditions of an endpoint.
type Conditions struct{ Serving, Terminating bool }

func (c Conditions) String() string {
	return fmt.Sprintf("serving=%t terminating=%t", c.Serving, c.Terminating)
}

func conditions(now Conditions) Detail { return why(now.String()) }

func stillServes(serving bool) Detail {
	if serving {
		return why("serving")
	}
	return why("not-serving")
}

// Service is the service whose endpoint the event is about; empty for kube-dns.
func (e Event) Service() string {
	return e.keyOf(EndpointReady, EndpointNotReady, EndpointTerminating, EndpointGone)
}

// Conditions are those of an EndpointNotReady or EndpointTerminating.
func (e Event) Conditions() Conditions {
	return Conditions{
		Serving:     e.reasonOf(EndpointTerminating) == "serving" || strings.HasPrefix(e.reasonOf(EndpointNotReady), "serving=true"),
		Terminating: e.Kind == EndpointTerminating || strings.Contains(e.reasonOf(EndpointNotReady), "terminating=true"),
	}
}

// Watch is what a WatchLost or WatchBack is about: nodes, pods, ….
func (e Event) Watch() string { return e.keyOf(WatchLost, WatchBack) }

// About reports whether the event is one of Kubernetes about an object of that kind.
func (e Event) About(kind string) bool { return e.Kind == ClusterEvent && e.key.Text == kind }

// KubernetesReason is the reason that Kubernetes gives: of an event, an eviction, or the end of a container.
func (e Event) KubernetesReason() string { return e.reasonOf(ClusterEvent, PodEvicted, PodRestarted) }
