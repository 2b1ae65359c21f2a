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

// Evictable reports whether a drain has to move the pod, one of those that Pods returns.
// It leaves daemon and mirror pods, those that tolerate a cordon, and pods that had
// finished when recording started.
func Evictable(pod []Event) bool {
	first := pod[0]
	finished := first.Kind == PodPresent && slices.Contains([]string{"Succeeded", "Failed"}, first.Reason)
	return !finished && !OwnedBy(pod, "DaemonSet") && !OwnedBy(pod, "Node") && first.Numbers[ToleratesDrain] == 0
}

// OwnedBy reports whether the pod's controller is of that kind; Node for a mirror pod.
func OwnedBy(pod []Event, kind string) bool {
	return slices.ContainsFunc(pod, func(e Event) bool { return strings.HasPrefix(e.Owner, kind+"/") })
}
