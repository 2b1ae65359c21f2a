package history

import (
	"slices"
	"strings"
)

// Own leaves out of a drill's events what belongs to the drills that were played
// at the same time as it, which the history names: what happens on their nodes, to the pods of
// their namespaces, and to their messages.
func Own(events []Event) []Event {
	theirs := map[string]bool{}
	for _, e := range events {
		if e.Kind == ConcurrentDrill {
			theirs[e.Node+e.Pod+e.Notice+e.Message] = true
		}
	}
	if len(theirs) == 0 {
		return events
	}
	// A notice is known by its id only while its message is handed out.
	for _, e := range events {
		if e.Kind == SQSReceived && theirs[e.Notice] {
			theirs[e.Message] = true
		}
	}
	delete(theirs, "")
	return slices.DeleteFunc(slices.Clone(events), func(e Event) bool {
		namespace, _, ofPod := strings.Cut(e.Pod, "/")
		return e.Kind != ConcurrentDrill && (theirs[e.Node] || ofPod && theirs[namespace] || theirs[e.Notice] || theirs[e.Message])
	})
}

// SharedCluster reports whether the history is of a drill that shared the cluster.
func SharedCluster(events []Event) bool {
	return slices.ContainsFunc(events, func(e Event) bool { return e.Kind == ConcurrentDrill })
}
