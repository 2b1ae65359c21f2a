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

// NewEndpointReady reports that an address of the EndpointSlices of a service is ready. The service is
// empty for kube-dns, as for the other events of endpoints.
func NewEndpointReady(service, pod, ip string, with ...Detail) Event {
	return newEvent(EndpointReady, service, "", with, Pod(pod), IP(ip))
}

// Conditions of an endpoint.
type Conditions struct{ Serving, Terminating bool }

func (c Conditions) String() string {
	return fmt.Sprintf("serving=%t terminating=%t", c.Serving, c.Terminating)
}

// NewEndpointNotReady reports that an address is not ready.
func NewEndpointNotReady(service, pod, ip string, now Conditions, with ...Detail) Event {
	return newEvent(EndpointNotReady, service, now.String(), with, Pod(pod), IP(ip))
}

// NewEndpointTerminating reports that an address terminates, and whether it still serves.
func NewEndpointTerminating(service, pod, ip string, serving bool, with ...Detail) Event {
	reason := "not-serving"
	if serving {
		reason = "serving"
	}
	return newEvent(EndpointTerminating, service, reason, with, Pod(pod), IP(ip))
}

// NewEndpointGone reports that an address left the EndpointSlices.
func NewEndpointGone(service, pod, ip string, with ...Detail) Event {
	return newEvent(EndpointGone, service, "", with, Pod(pod), IP(ip))
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

// NewWatchLost reports that the watch of nodes, pods, … broke. Said: when it last delivered something.
func NewWatchLost(watch string, with ...Detail) Event { return newEvent(WatchLost, watch, "", with) }

// NewWatchBack reports that the watch is back. What happened meanwhile is on record before it or right
// after it, unless Note states otherwise.
func NewWatchBack(watch string, with ...Detail) Event { return newEvent(WatchBack, watch, "", with) }

// Watch is what a WatchLost or WatchBack is about: nodes, pods, ….
func (e Event) Watch() string { return e.keyOf(WatchLost, WatchBack) }

// NewClusterEvent is an event of Kubernetes about an object of a kind. Node or Pod: the object; Note: its
// message; Owner: the component that reported it.
func NewClusterEvent(kind, reason string, with ...Detail) Event {
	return newEvent(ClusterEvent, kind, reason, with)
}

// About reports whether the event is one of Kubernetes about an object of that kind.
func (e Event) About(kind string) bool { return e.Kind == ClusterEvent && e.key.Text == kind }

// KubernetesReason is the reason that Kubernetes gives: of an event, an eviction, or the end of a container.
func (e Event) KubernetesReason() string { return e.reasonOf(ClusterEvent, PodEvicted, PodRestarted) }

// NewClusterGrown reports that virtual nodes join the cluster, or leave it. Numbers: virtual_nodes, cores
// (of all of them).
func NewClusterGrown(with ...Detail) Event { return newEvent(ClusterGrown, "", "", with) }
