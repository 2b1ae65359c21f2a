package history

import (
	"slices"
	"strings"
)

// Pods gathers the events of each pod, by UID, from events in order of time: one
// group a pod, in the order in which they appear, none empty.
func Pods(events []Event) [][]Event {
	var pods [][]Event
	index := map[string]int{}
	for _, e := range events {
		if e.UID == "" || !strings.HasPrefix(string(e.Kind), "pod.") {
			continue
		}
		i, ok := index[e.UID]
		if !ok {
			i = len(pods)
			index[e.UID], pods = i, append(pods, nil)
		}
		pods[i] = append(pods[i], e)
	}
	return pods
}

// Evictable reports whether a drain by marking nodes with the taint has to move the pod,
// one of those that Pods returns, until it finishes. It leaves daemon and mirror pods,
// and those that tolerate a cordon or the taint.
func Evictable(pod []Event, taint string) bool {
	return !OwnedBy(pod, "DaemonSet") && !OwnedBy(pod, "Node") && pod[0].Numbers[ToleratesDrain] == 0 && !tolerates(pod[0], taint)
}

func tolerates(pod Event, taint string) bool {
	keys := strings.Split(pod.Note, ",")
	return taint != "" && (slices.Contains(keys, taint) || slices.Contains(keys, AnyTaint))
}

// AnyTaint is what a pod tolerates that tolerates every taint.
const AnyTaint = "*"

// Finished returns the event by which the pod had finished by itself: nothing had begun
// to end it. It may have been so when recording started.
func Finished(pod []Event) (Event, bool) {
	for _, e := range pod {
		switch e.Kind {
		case PodPresent, PodFinished:
			if slices.Contains([]string{"Succeeded", "Failed"}, e.PodPhase()) {
				return e, true
			}
		case PodTerminating, PodDeleted:
			return Event{}, false
		}
	}
	return Event{}, false
}

// OwnedBy reports whether the pod's controller is of that kind; Node for a mirror pod.
func OwnedBy(pod []Event, kind string) bool {
	return slices.ContainsFunc(pod, func(e Event) bool { return strings.HasPrefix(e.Owner, kind+"/") })
}
